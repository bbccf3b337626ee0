"""Models of a recipe in memory, whose replies a subclass decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generation.llm.errors import BrokenReply
from generation.llm.types import Message, Reply, Request

T = TypeVar("T", bound=BaseModel)


CUT_OFF = "✂"  # at the end of a scripted reply: it was cut off there


def scripted_reply(text: str, model: str) -> Reply:
    ending = "cut_off" if text.endswith(CUT_OFF) else "complete"
    return Reply(text.removesuffix(CUT_OFF), model=model, ending=ending)


@dataclass
class Models:
    """`generation.recipes.recipe.Models` in memory; like the gateway, asks once more if a reply is
    refused. `requests` records the calls."""

    bound: frozenset[str] = frozenset()
    vectors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    requests: list[tuple[str, Request]] = field(default_factory=list)

    def reply_to(self, role: str, request: Request) -> str:
        raise AssertionError(f"no reply of {role} to {request.prompt}")

    def model(self, role: str) -> str:
        return role

    def has(self, role: str) -> bool:
        return role in self.bound

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        assert role == "embedder"
        return [self.vectors[text] for text in texts]

    async def ask(self, role: str, request: Request, *, check: Any = None) -> Reply:
        assert self.has(role)
        self.requests.append((role, request))
        return scripted_reply(self.reply_to(role, request), self.model(role))

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        for last in (False, True):
            text = (await self.ask(role, request)).text
            try:
                result = shape.model_validate_json(text, strict=True)
                if check is not None:
                    check(result)
                return result
            except (BrokenReply, ValidationError) as error:
                if last:
                    raise BrokenReply(str(error)) from None
                refusal = f"Your last reply cannot be used. {error} Answer again with one JSON object as asked for."
                request = replace(
                    request, messages=(*request.messages, Message("assistant", text), Message("user", refusal))
                )
        raise AssertionError
