"""Pairs of models compared by the judge's verdicts, and corrected by those of physicians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.judges.numbers.criteria import JudgedCriteria
from evaluation.numbers.frame import Ints
from evaluation.numbers.plans import PLANNED
from evaluation.numbers.rules import COMBINED
from evaluation.statistics.clusters import Floats, cluster_totals
from evaluation.statistics.comparisons import PairedDifference, paired_difference
from evaluation.statistics.correction import CheckedVerdicts, corrected_difference
from evaluation.statistics.multiplicity import holm_by_family

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
    pairs = [pair for pair in pairs if set(pair) <= set(frame.models)]
    if not rate.is_share or not pairs:
        return ()
    counted, compared, families = frame.places(frame.in_scope(rate)), [], list[str]()
    model, unit, dataset = (frame.array(name) for name in ("model", "unit", "dataset"))
    units = 1 + int(unit.max(initial=0))
    dataset_of = np.full(units, -1)
    dataset_of[unit] = dataset
    of_model = {
        name: counted[model[counted] == frame.models.index(name)] for name in {name for pair in pairs for name in pair}
    }
    has_verdict = {name: np.bincount(unit[rows], minlength=units) > 0 for name, rows in of_model.items()}
    everything = np.ones(units, dtype=np.bool_)
    groups = [(name, dataset_of == position) for position, name in enumerate(frame.datasets)]
    for name, in_group in [*groups, *([(COMBINED, everything)] if pooled else [])]:
        for first, second in pairs:
            shared = in_group & has_verdict[first] & has_verdict[second]
            one, other = (checked(rows[shared[unit[rows]]]) for rows in (of_model[first], of_model[second]))
            raw = paired_difference(*_totals(one), *_totals(other), minimum=minimum)
            corrected = corrected_difference(one, other, minimum=minimum)
            labelled = name, labels[name], first, second
            compared.append(CorrectedComparison(*labelled, raw.clusters, _difference(raw), _difference(corrected)))
            families.append("" if role(rate.name, name) == PLANNED else name)
    raws, corrections = (
        _with_holm(families, differences)
        for differences in ([row.raw for row in compared], [row.corrected for row in compared])
    )
    return tuple(
        replace(row, raw=raw, corrected=corrected)
        for row, raw, corrected in zip(compared, raws, corrections, strict=True)
    )


def _totals(verdicts: CheckedVerdicts) -> tuple[Floats, ...]:
    hits = np.asarray(verdicts.judge)
    return cluster_totals(verdicts.clusters, hits, np.ones(len(hits)))


def _difference(found: PairedDifference) -> TestedDifference:
    return TestedDifference(found.difference, found.low, found.high, found.p)


def _with_holm(families: Sequence[str], differences: Sequence[TestedDifference]) -> list[TestedDifference]:
    adjusted = holm_by_family(families, [each.p for each in differences])
    return [replace(each, p_adjusted=p) for each, p in zip(differences, adjusted, strict=True)]
