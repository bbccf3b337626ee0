"""Information extraction: what a note says under a concept is a factual statement; with what another note says under the same
concept of the same category, it is not."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from generation.recipes.recipe import OtherValues
from mhb_site.benchmarks.medhal.tasks.draw import drawn
from mhb_site.benchmarks.medhal.tasks.pair import Pair

KIND = "note"
_EMPTY = frozenset({"", "none", "null", "n/a", "unknown", "not specified", "not mentioned"})


async def pairs(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any], others: OtherValues | None
) -> Sequence[Pair]:
    """A pair for each extraction, or so many of them as the setting says, drawn by the seed."""
    found = wanted(content, external_id, settings)
    if not found:
        return [Pair("ie", out="nothing-extracted")]
    own: dict[str, list[str]] = defaultdict(list)
    for one in content["extractions"]:
        own[_name(one)].append(one["value"])
    made = []
    for at, one in found:
        name = _name(one)
        other = await others.draw(name, own[name], f"{settings['seed']}/{at}") if others else None
        made.append(
            Pair(
                "ie",
                place=str(at),
                out="" if other else "no-other-value",
                field="text",
                right=one["value"],
                wrong=other or "",
                category=one["category"],
                concept=one["concept"],
                reference=one["reference"],
            )
        )
    return made


def _name(extraction: Mapping[str, str]) -> str:
    """Under which name the importer kept its value."""
    return f"{extraction['category']}/{extraction['concept']}"


def wanted(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]
) -> list[tuple[int, Mapping[str, str]]]:
    """The extractions that become pairs, each with its place among all of the note, in their order."""
    found = [(at, one) for at, one in enumerate(content["extractions"]) if one["value"].casefold() not in _EMPTY]
    most = settings["pairs_a_note"]
    if not most or len(found) <= most:
        return found
    found.sort(key=lambda each: drawn(2**63, settings["seed"], "extraction", external_id, str(each[0])))
    return sorted(found[:most], key=lambda each: each[0])
