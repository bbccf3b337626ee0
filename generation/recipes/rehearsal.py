"""Runs a step of a recipe up to its first question, which is shown or tried instead of asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from asgiref.sync import async_to_sync
from django.utils.translation import gettext
from pydantic import BaseModel

from generation.llm.types import Reply, Request
from generation.recipes.recipe import Draft, Dropped, Step

Shape = TypeVar("Shape", bound=BaseModel)


class RehearsedQuestion(Exception):
    """The first question of a step: to which role, and what is done with the reply."""

    def __init__(
        self, role: str, request: Request, shape: type[BaseModel] | None, check: Callable[[Any], None] | None
    ) -> None:
        self.role, self.request, self.shape, self.check = role, request, shape, check
        super().__init__(role)


class NoQuestion(Exception):
    """The step asks no model a question about this draft, or needs what an earlier step makes."""


@dataclass(frozen=True, slots=True)
class _Models:
    """Models that raise what they are asked. Implements `generation.recipes.recipe.Models`."""

    names: Mapping[str, str]  # role -> model

    def has(self, role: str) -> bool:
        return role in self.names

    def model(self, role: str) -> str:
        return self.names[role]

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise NoQuestion(gettext("This step embeds texts before it asks a model."))

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        self._stop(role, request, None, check)

    async def ask_structured(
        self, role: str, request: Request, shape: type[Shape], *, check: Callable[[Shape], None] | None = None
    ) -> Shape:
        self._stop(role, request, shape, check)

    def _stop(self, *question: Any) -> NoReturn:
        raise RehearsedQuestion(*question)


def first_question(step: Step, draft: Draft, names: Mapping[str, str]) -> RehearsedQuestion:
    """The first question that a step asks about a draft; `names`: role -> model.

    Raises NoQuestion.
    """
    try:
        if step.applies(draft):
            async_to_sync(step.run)(draft, _Models(names))
    except RehearsedQuestion as question:
        return question
    except Dropped as reason:
        raise NoQuestion(gettext("This step discards the draft: %(reason)s") % {"reason": reason}) from None
    except (LookupError, TypeError, AttributeError, ValueError):
        needs = gettext("This step needs the results of earlier ones. Choose a draft that went through them.")
        raise NoQuestion(needs) from None
    raise NoQuestion(gettext("This step asks no model about this record with the usual settings."))
