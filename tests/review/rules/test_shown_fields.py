"""An answer shows the same values to JSON, commands and the API's schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from review.common.serializers import serializer_of
from review.rules.shown_fields import Hidden, Recent, Shown, shown, shown_values


@dataclass(frozen=True)
class Cup:
    """A cup."""

    size: int
    cost: Annotated[Decimal, Shown(places=2)] = Decimal(1)


@dataclass(frozen=True)
class Tea:
    """A tea."""

    leaf: Literal["green", "black"]
    cups: tuple[Cup, ...]
    grams: Annotated[float | None, Shown("weight")]
    secret: Hidden[str] = ""
    fields: Mapping[str, int] = ()  # type: ignore[assignment]
    milk: Recent[bool] = True

    @property
    @shown
    def volume(self) -> int:
        return sum(cup.size for cup in self.cups)

    @property
    @Shown("is_large")
    def large(self) -> bool:
        return self.volume > 500

    @property
    def label(self) -> str:
        return "not shown"


class Order(TypedDict):
    """An order."""

    teas: list[Tea]
    note: NotRequired[str]


TEA = Tea("green", (Cup(250), Cup(300)), 2.5, "x", {"spoons": 2})


def test_fields_and_marked_properties_are_shown_under_their_names() -> None:
    assert shown_values(TEA) == {
        "leaf": "green",
        "cups": TEA.cups,
        "weight": 2.5,
        "fields": {"spoons": 2},
        "milk": True,
        "volume": 550,
        "is_large": True,
    }


def test_the_api_shows_the_same_and_refuses_what_the_types_exclude() -> None:
    answer = dict(serializer_of(Tea)(TEA).data)
    cups = [{"size": 250, "cost": "1.00"}, {"size": 300, "cost": "1.00"}]
    assert answer == {**shown_values(TEA), "cups": cups}
    assert serializer_of(Tea) is serializer_of(Tea), "one component of the schema"
    wrong = serializer_of(Tea)(data={**answer, "leaf": "red"})
    assert not wrong.is_valid()
    assert list(wrong.errors) == ["leaf"]


def test_stored_json_may_lack_what_is_recent_and_an_order_its_note() -> None:
    stored: dict[str, Any] = {**serializer_of(Tea)(TEA).data, "grams": 2.5, "large": True}
    del stored["milk"]
    order: Any = {"teas": [stored]}
    shown_order = serializer_of(Order)(order).data
    assert "note" not in shown_order
    assert shown_order["teas"][0]["milk"] is True
