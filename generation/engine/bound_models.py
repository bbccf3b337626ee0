"""The models that a step of a recipe may call, by role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from generation.engine import watchdog
from generation.llm.types import Reply, Request
from generation.models import Endpoint
from generation.models.work import Work

if TYPE_CHECKING:
    from generation.engine.worker_lane import RunningLane

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class BoundModels:
    """The models of one row of work: roles bound to endpoints, with every attempt in the ledger.

    Implements `generation.recipes.recipe.Models`.
    """

    lane: RunningLane
    endpoints: Mapping[str, Endpoint]
    row: Work
    lines: list[int] = field(default_factory=list)  # of the ledger

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        endpoint = self.endpoints[role]
        ledger = self.lane.ledger_for(endpoint, self.row, self.lines)
        with watchdog.calling():
            return await self.lane.gateway.ask(endpoint.settings, request, check=check, ledger=ledger)

    async def ask_structured(
        self, role: str, request: Request, shape: type[Shape], *, check: Callable[[Shape], None] | None = None
    ) -> Shape:
        endpoint = self.endpoints[role]
        ledger = self.lane.ledger_for(endpoint, self.row, self.lines)
        with watchdog.calling():
            _reply, value = await self.lane.gateway.ask_structured(
                endpoint.settings, request, shape, check=check, ledger=ledger
            )
        return value

    def has(self, role: str) -> bool:
        return role in self.endpoints

    def model(self, role: str) -> str:
        return self.endpoints[role].model

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        endpoint = self.endpoints[role]
        ledger = self.lane.ledger_for(endpoint, self.row, self.lines)
        with watchdog.calling():
            return await self.lane.gateway.embed(endpoint.settings, texts, ledger=ledger)
