"""Information extraction: a value from the note makes a factual statement.

A value from another note, of the same concept and category, makes the non-factual one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from generation.recipes.recipe import OtherValues
from mhb_site.benchmarks.medhal.tasks.pair import Pair, draw_index

KIND = "note"
_EMPTY = frozenset({"", "none", "null", "n/a", "unknown", "not specified", "not mentioned"})


async def pairs(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any], others: OtherValues | None
) -> Sequence[Pair]:
    """A pair per extraction, or as many as the setting allows, drawn by the seed."""
    selected = selected_extractions(content, external_id, settings)
    if not selected:
        return [Pair("ie", out="nothing-extracted")]
    own_values: dict[str, list[str]] = defaultdict(list)
    for extraction in content["extractions"]:
        own_values[_value_name(extraction)].append(extraction["value"])
    result = []
    for index, extraction in selected:
        name = _value_name(extraction)
        other, out = None, ""
        if others:
            other = await others.draw(name, own_values[name], f"{settings['seed']}/{index}")
        if not other:
            out = "no-other-value"
        result.append(
            Pair(
                "ie",
                place=str(index),
                out=out,
                field="text",
                right=extraction["value"],
                wrong=other or "",
                category=extraction["category"],
                concept=extraction["concept"],
                reference=extraction["reference"],
            )
        )
    return result


def _value_name(extraction: Mapping[str, str]) -> str:
    """The name under which the importer stored the value."""
    return f"{extraction['category']}/{extraction['concept']}"


def selected_extractions(
    content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]
) -> list[tuple[int, Mapping[str, str]]]:
    """The extractions that become pairs, each with its position in the note, in order."""
    selected = []
    for index, extraction in enumerate(content["extractions"]):
        if extraction["value"].casefold() not in _EMPTY:
            selected.append((index, extraction))
    limit = settings["pairs_a_note"]
    if not limit or len(selected) <= limit:
        return selected
    selected.sort(key=lambda entry: draw_index(2**63, settings["seed"], "extraction", external_id, str(entry[0])))
    return sorted(selected[:limit], key=lambda entry: entry[0])
