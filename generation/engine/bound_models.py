"""The models that a step of a recipe may call, by role."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class BoundModels:
    """The models of one row of work: roles bound to endpoints, with every attempt in the ledger.

    Implements `generation.recipes.recipe.Models`.
    """

    gateway: Gateway
    ledger: LaneLedger
    endpoints: Mapping[str, Endpoint]
    row: Work
    lines: list[int] = field(default_factory=list)  # of the ledger

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        settings, ledger = self._bound(role)
        with watchdog.calling():
            return await self.gateway.ask(settings, request, check=check, ledger=ledger)

    async def ask_structured(
        self, role: str, request: Request, shape: type[Shape], *, check: Callable[[Shape], None] | None = None
    ) -> Shape:
        settings, ledger = self._bound(role)
        with watchdog.calling():
            return (await self.gateway.ask_structured(settings, request, shape, check=check, ledger=ledger))[1]

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        settings, ledger = self._bound(role)
        with watchdog.calling():
            return await self.gateway.embed(settings, texts, ledger=ledger)

    def _bound(self, role: str) -> tuple[ModelSettings, Ledger]:
        endpoint = self.endpoints[role]
        return endpoint.settings, self.ledger.of_row(self.row, endpoint, self.lines)

    def has(self, role: str) -> bool:
        return role in self.endpoints

    def model(self, role: str) -> str:
        return self.endpoints[role].model
