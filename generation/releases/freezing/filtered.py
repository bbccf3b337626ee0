"""Leaves out of a release what is easiest to tell without reading."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from generation import errors
from generation.probes.filtering import PARTITIONS, SLICES, easiest, without
from generation.probes.labels import sentence
from generation.probes.measuring import ProbeCase, measure, why_not
from generation.probes.reading import MAX_CASES
from generation.recipes.recipe import Term
from generation.releases.freezing import content
from generation.releases.freezing.content import Chosen


@dataclass(frozen=True, slots=True)
class FilteredRelease:
    """The versions that stay, and what is said of the others.

    `about`: {share, seeds, slices, partitions, samples, before, after: accuracy of the words probe,
    facets: facet -> value -> [samples before, after]}. `removed`: source, task, language, arm,
    simulated -> value -> samples left out, as `Tally.counts`.
    """

    chosen: Chosen
    about: Mapping[str, Any]
    removed: Mapping[str, Counter[str]] = field(default_factory=dict)


def filter_release(
    benchmark: str, chosen: Chosen, terms: tuple[Term, ...], canary: str, share: float, seed: int
) -> FilteredRelease:
    """Leave out the share of records that words tell most clearly.

    Raises WrongComposition if nothing can be told of the samples, or if they are too many.
    """
    if len(chosen) > MAX_CASES:
        raise errors.WrongComposition(f"harder: {len(chosen)} samples; at most {MAX_CASES} can be filtered")
    cases: list[ProbeCase] = []
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}  # record -> (place, its values)
    for place, entry in enumerate(content.frozen_samples(benchmark, chosen, terms, canary)):
        case = content.labelled_case(benchmark, entry, len(chosen))
        if case is not None:
            cases.append(case)
            groups.setdefault(case.record, []).append((place, _values(entry.sample)))
    if (reason := why_not(cases)) is not None:
        raise errors.WrongComposition(f"harder: {sentence(reason)}")
    filtered = easiest(cases, share, seed)
    left_out = []
    for record in filtered.records:
        left_out += groups[record]
    stays = np.ones(len(chosen), dtype=bool)
    removed: dict[str, Counter[str]] = {}
    for place, values in left_out:
        stays[place] = False
        for name, value in values.items():
            removed.setdefault(name, Counter())[value] += 1
    rest = without(cases, filtered)
    about = {
        "share": share,
        "seeds": list(filtered.seeds),
        "slices": SLICES,
        "partitions": PARTITIONS,
        "samples": len(left_out),
        "before": _words_accuracy(cases),
        "after": _words_accuracy(rest),
        "facets": _facets(cases, rest),
    }
    return FilteredRelease(chosen[stays], about, removed)


def _values(sample: Mapping[str, Any]) -> dict[str, str]:
    """The values of a sample under the names of `Tally.counts`."""
    simulated = "no"
    if sample["simulated"] or "simulated_physicians" in sample["review"]:
        simulated = "yes"
    return {
        "source": sample["source"]["dataset"],
        "task": sample["task"],
        "language": sample["language"],
        "arm": sample["arm"],
        "simulated": simulated,
    }


def _words_accuracy(cases: list[ProbeCase]) -> float | None:
    for probe in measure(cases).probes:
        if probe.name == "words":
            return probe.accuracy
    return None


def _facets(before: list[ProbeCase], after: list[ProbeCase]) -> dict[str, dict[str, list[int]]]:
    """Facet -> value -> [cases before, after]: the filter does not leave out all alike."""
    counts: dict[str, dict[str, list[int]]] = {}
    for place, cases in enumerate((before, after)):
        for case in cases:
            for name, value in case.labelled.facets.items():
                counts.setdefault(name, {}).setdefault(value, [0, 0])[place] += 1
    return content.sorted_counts(counts)
