"""Runs of known truth: samples with a trap and their controls, two models, answers asked twice."""

from collections.abc import Iterator
from dataclasses import asdict
from random import Random
from typing import Any

import numpy as np

from evaluation.claims.claims import BenchmarkClaim, Claims, claims_of, unread
from evaluation.numbers.comparing import compare
from evaluation.numbers.late import pl
from evaluation.numbers.plans import PLANNED, THRESHOLDS, Plan
from evaluation.numbers.totals import unit_totals
from evaluation.protocol import DataSet
from evaluation.statistics.two_phase import two_phase_table
from evaluation.statistics.validation import judge_quality
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from tests.evaluation.frames import frame_of

MODELS = ("one", "other")
RATES = {"one": 0.45, "other": 0.2}
RULES = {"answered": "judged", "unparsed": "excluded", "judge_failed": "excluded", "no_majority": "excluded"}
NO_VOTES = pl.DataFrame()


def verdicts(
    seed: int, *, records: int = 300, control: float = 0.03, rates: dict[str, float] = RATES, turned: float = 0.05
) -> Iterator[dict[str, Any]]:
    """Two criteria a sample; a second answer differs from the first in a share `turned` of them.

    `rates`: of failed criteria on samples with a trap, by model; `control`: on controls.
    """
    dice = Random(seed)
    for record in range(records):
        for arm, sample in enumerate((2 * record, 2 * record + 1)):
            for model in MODELS:
                for rubric in (2 * sample, 2 * sample + 1):
                    failed = dice.random() < (control if arm else rates[model])
                    for repeat in (0, 1):
                        said = failed != (repeat and dice.random() < turned)
                        yield {
                            "model": model,
                            "sample": sample,
                            "record": record,
                            "rubric": rubric,
                            "repeat": repeat,
                            "is_control": bool(arm),
                            "said": "not_met" if said else "met",
                        }


def fixed_texts(rows: list[dict[str, Any]], rates: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Each text fails this share of the criteria of a run, whether its sample has a trap or not."""
    criteria = {row["rubric"]: row for row in rows}
    for text, rate in rates.items():
        dice = Random(text)
        for row in criteria.values():
            yield {**row, "model": text, "repeat": 0, "said": "not_met" if dice.random() < rate else "met"}


def twin_rows(rows: list[dict[str, Any]], reworded: float) -> Iterator[dict[str, Any]]:
    """The controls of a run, and for each its rewording, which fails this share of its criteria."""
    dice = Random("".join(row["said"] or "" for row in rows))
    for row in rows:
        if row["is_control"]:
            yield row
            said = "not_met" if dice.random() < reworded else "met"
            twin = {"sample": row["sample"] + 10_000, "rubric": row["rubric"] + 10_000}
            yield {**row, **twin, "is_control": False, "said": said}


def validation(kappa: float, low: float | None, high: float | None) -> dict[str, Any]:
    """What a report says of a judge that physicians checked."""
    estimate = {"value": kappa, "low": low, "high": high}
    return {"simulated_physicians": False, "models": [{"judge": {"kappa": estimate}}]}


def checked(seed: int, models: int = 6, answers: int = 300) -> dict[str, Any]:
    """What a report says of a judge whose true κ is .6 on the answers of each of these models.

    Physicians fail .3 of the criteria, two an answer, and check one answer in five; the judge finds
    .6845 of what they fail, and fails .1 of what they pass.
    """
    random = np.random.default_rng([seed, models])
    clusters = np.repeat(np.arange(answers), 2)
    known = []
    for _model in range(models):
        truth = random.random(len(clusters)) < 0.3
        judged = random.random(len(clusters)) < np.where(truth, 0.6845, 0.1)
        is_checked = random.random(answers)[clusters] < 0.2
        quality = judge_quality(two_phase_table(clusters, judged, np.where(is_checked, truth, np.nan)))
        known.append({"judge": {"kappa": asdict(quality.kappa)}})
    return {"simulated_physicians": False, "models": known}


def claims(rows: Iterator[dict[str, Any]] | list[dict[str, Any]], **given: Any) -> Claims:
    """The claims of these verdicts. `given`: validation, probe, votes, texts, reworded,
    thresholds.
    """
    datasets = [DataSet("dialogue", "", "dialogue")]
    rows = list(rows)
    frame = frame_of(MODELS, datasets, RULES, rows, repeats=2)
    texts = given.get("texts", {})
    fixed = frame_of(tuple(texts), datasets, RULES, fixed_texts(rows, texts)) if texts else None
    reworded = given.get("reworded")
    twins = None if reworded is None else frame_of(MODELS, datasets, RULES, twin_rows(rows, reworded), repeats=2)
    plan = Plan(PROTOCOL.rates[0].name, (MODELS,), RULES, thresholds=given.get("thresholds", THRESHOLDS))
    rate = PROTOCOL.rates[0]
    totals = unit_totals(frame.current, [rate])[rate.name]
    comparisons = compare(totals, [MODELS], minimum=plan.minimum, role=lambda *_: PLANNED)
    return claims_of(
        frame,
        given.get("votes", NO_VOTES),
        PROTOCOL,
        plan,
        comparisons,
        given.get("validation"),
        given.get("probe", unread(None)),
        fixed,
        twins,
    )


def by_name(found: Claims) -> dict[str, BenchmarkClaim]:
    """The claims by their names."""
    return {claim.name: claim for claim in found.claims}
