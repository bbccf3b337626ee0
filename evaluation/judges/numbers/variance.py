"""The variance of a run, split into samples, answers and judges."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.numbers.frame import Frame, as_array, votes_in_scope
from evaluation.numbers.late import pl
from evaluation.protocol import Protocol
from evaluation.statistics.repeats import VarianceComponents, variance_components


@dataclass(frozen=True, slots=True)
class ModelVariance:
    """For one model, the variance of the share of an answer's criteria that failed."""

    endpoint: str
    components: VarianceComponents


def variances(frame: Frame, protocol: Protocol, votes: pl.DataFrame | None) -> tuple[ModelVariance, ...]:
    """The split for each model. `votes`: of a panel; None if there is none."""
    rate, failing = protocol.rates[0], protocol.failing_verdicts
    if votes is not None:
        cast = votes_in_scope(frame, rate, failing, votes)
    else:
        rows = frame.rows.filter(frame.in_scope(rate))
        cast = rows.with_columns(
            pl.lit("").alias("judge"), pl.lit(0).alias("number"), frame.has(failing).alias("failed")
        )
    # The share of an answer's criteria that failed, by each judgment of the answer.
    shares = cast.group_by("model", "unit", "response", "judge", "number").agg(pl.col("failed").mean())
    shares = shares.sort("unit", "response", "judge", "number")
    result = []
    for model in frame.models:
        of_model = shares.filter(pl.col("model") == model)
        if not of_model.is_empty():
            columns = [as_array(of_model[name]) for name in ("unit", "response", "failed")]
            result.append(ModelVariance(model, variance_components(*columns)))
    return tuple(result)
