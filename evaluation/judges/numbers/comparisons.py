"""Pairs of models compared by the judge's verdicts, and corrected by those of physicians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from evaluation.judges.numbers.criteria import JudgedCriteria
from evaluation.numbers.comparing import family_of, with_holm
from evaluation.numbers.frame import Ints
from evaluation.numbers.rules import COMBINED
from evaluation.statistics.clusters import Floats, cluster_totals
from evaluation.statistics.comparisons import PairedDifference, paired_difference
from evaluation.statistics.correction import CheckedVerdicts, corrected_difference

Checked = Callable[[Ints], CheckedVerdicts]


@dataclass(frozen=True, slots=True)
class TestedDifference:
    """The first rate minus the second, with its 95 % interval and p; None where there is none.

    `p_adjusted`: by Holm, over the comparisons that the report adjusts together.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None = None


@dataclass(frozen=True, slots=True)
class CorrectedComparison:
    """The difference of two models by the judge, and by what physicians would have found.

    Both are over the samples in scope for both models, in `clusters` clusters.
    """

    dataset: str
    label: str
    first: str
    second: str
    clusters: int
    raw: TestedDifference
    corrected: TestedDifference


def corrected_comparisons(
    judged: JudgedCriteria,
    pairs: Sequence[tuple[str, str]],
    checked: Checked,
    labels: Mapping[str, str],
    *,
    pooled: bool,
    role: Callable[[str, str], str],
    minimum: int,
) -> tuple[CorrectedComparison, ...]:
    """The planned pairs on each data set, then on all pooled; none if the rate is no plain share.

    Args:
        role: of a rate on a data set, as `Plan.role`; what is planned is one family (Holm).
        checked: judgments -> their verdicts, some of them checked by physicians.
        labels: of the data sets.
    """
    frame, rate = judged.frame, judged.rate
    models = set(frame.models)
    pairs = [pair for pair in pairs if models.issuperset(pair)]
    if not rate.is_share or not pairs:
        return ()
    counted, compared, families = frame.places(frame.in_scope(rate)), [], list[str]()
    model, unit, dataset = frame.array("model"), frame.array("unit"), frame.array("dataset")
    units = 1 + int(unit.max(initial=0))
    dataset_of = np.full(units, -1)
    dataset_of[unit] = dataset
    of_model, has_verdict = {}, {}
    for name in set(chain.from_iterable(pairs)):
        of_model[name] = counted[model[counted] == frame.models.index(name)]
        has_verdict[name] = np.bincount(unit[of_model[name]], minlength=units) > 0
    groups = [(name, dataset_of == position) for position, name in enumerate(frame.datasets)]
    if pooled:
        groups.append((COMBINED, np.ones(units, dtype=np.bool_)))
    for name, in_group in groups:
        for first, second in pairs:
            shared = in_group & has_verdict[first] & has_verdict[second]
            one = checked(of_model[first][shared[unit[of_model[first]]]])
            other = checked(of_model[second][shared[unit[of_model[second]]]])
            raw = paired_difference(*_totals(one), *_totals(other), minimum=minimum)
            corrected = corrected_difference(one, other, minimum=minimum)
            labelled = name, labels[name], first, second
            compared.append(CorrectedComparison(*labelled, raw.clusters, _difference(raw), _difference(corrected)))
            families.append(family_of(role(rate.name, name), name))
    raws = with_holm([row.raw for row in compared], families)
    corrections = with_holm([row.corrected for row in compared], families)
    adjusted = []
    for row, raw_holm, corrected_holm in zip(compared, raws, corrections, strict=True):
        adjusted.append(replace(row, raw=raw_holm, corrected=corrected_holm))
    return tuple(adjusted)


def _totals(verdicts: CheckedVerdicts) -> tuple[Floats, ...]:
    hits = np.asarray(verdicts.judge)
    return cluster_totals(verdicts.clusters, hits, np.ones(len(hits)))


def _difference(found: PairedDifference) -> TestedDifference:
    return TestedDifference(found.difference, found.low, found.high, found.p)
