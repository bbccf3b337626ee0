"""The models that a step of a recipe may call, by role."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel

from generation.engine import watchdog
from generation.engine.lane_ledger import LaneLedger
from generation.llm.gateway import Gateway
from generation.llm.ledger_interface import Ledger
from generation.llm.types import ModelSettings, Reply, Request
from generation.models import Endpoint
from generation.models.work import Work

Shape = TypeVar("Shape", bound=BaseModel)
Groups = Callable[[Request], Sequence[str]]  # the names of what shares a prompt's beginning, the largest first


def no_groups(_request: Request) -> Sequence[str]:
    return ()


def by_prompt(request: Request) -> Sequence[str]:
    """The group of the requests with one prompt file, which begin with its rules."""
    if request.prompt:
        return [request.prompt]
    return []


@dataclass(frozen=True, slots=True)
class BoundModels:
    """The models of one row of work: roles bound to endpoints, with every attempt in the ledger.

    Implements `generation.recipes.recipe.Models`.
    """

    gateway: Gateway
    ledger: LaneLedger
    endpoints: Mapping[str, Endpoint]
    row: Work
    groups: Groups
    in_turn: Callable[[Work, Sequence[str]], AbstractAsyncContextManager[None]]
    lines: list[int] = field(default_factory=list)  # of the ledger

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        settings, ledger = self._bound(role)
        path = self._path(role, request)
        async with self.in_turn(self.row, path):
            with watchdog.calling():
                return await self.gateway.ask(settings, _keyed(request, path), check=check, ledger=ledger)

    async def ask_structured(
        self, role: str, request: Request, shape: type[Shape], *, check: Callable[[Shape], None] | None = None
    ) -> Shape:
        settings, ledger = self._bound(role)
        path = self._path(role, request)
        async with self.in_turn(self.row, path):
            with watchdog.calling():
                reply = self.gateway.ask_structured(settings, _keyed(request, path), shape, check=check, ledger=ledger)
                return (await reply)[1]

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        settings, ledger = self._bound(role)
        with watchdog.calling():
            return await self.gateway.embed(settings, texts, ledger=ledger)

    def _path(self, role: str, request: Request) -> list[str]:
        endpoint = self.endpoints[role].pk
        return [f"{endpoint}:{name}" for name in self.groups(request)]

    def _bound(self, role: str) -> tuple[ModelSettings, Ledger]:
        endpoint = self.endpoints[role]
        return endpoint.settings, self.ledger.of_row(self.row, endpoint, self.lines)

    def has(self, role: str) -> bool:
        return role in self.endpoints

    def model(self, role: str) -> str:
        return self.endpoints[role].model


def _keyed(request: Request, path: Sequence[str]) -> Request:
    """The request with the name of its largest group as the key of its cache."""
    if path:
        return replace(request, cache_key=path[0])
    return request
