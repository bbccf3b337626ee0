"""Frames of hand-made verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evaluation.metrics import SUMS, Sums
from evaluation.numbers.frame import RECORD, SAMPLE, Frame, Tables, build_frame
from evaluation.protocol import DataSet

Verdict = Mapping[str, Any]
VOIDS = {"response": pl.Int64, "rubric": pl.Int64, "void": pl.String}


def sums_of(**fields: Any) -> Sums:
    """The sums of clusters: an array of numbers for each field; others are 0."""
    sums = np.zeros(len(fields["counted"]), SUMS)
    for name, values in fields.items():
        sums[name] = values
    return sums


def frame_of(
    models: Sequence[str],
    datasets: Sequence[DataSet],
    rules: Mapping[str, str],
    verdicts: Iterable[Verdict],
    members: Iterable[tuple[str, str, int]] = (),
    **more: Any,
) -> Frame:
    """The frame of verdicts, each with model, sample, rubric and said.

    May have: variant, repeat, outcome, status, error, void; task, record, is_control, is_held_out
    and withdrawn of the sample. A verdict of None is of a criterion without an answer.
    `more`: variants_of, repeats, pooled.
    """
    rows = [
        {
            "variant": "", "repeat": 0, "outcome": "answered", "error": "", "void": "", "task": datasets[0].task,
            "record": row["sample"], "is_control": False, "is_held_out": False, "withdrawn": False, **row,
        }
        for row in verdicts
    ]  # fmt: skip
    samples = {row["sample"]: row for row in rows}
    of_record: dict[int, set[int]] = {}
    for number, row in samples.items():
        of_record.setdefault(row["record"], set()).add(number)
    shared = any(len(numbers) > 1 for numbers in of_record.values())
    clusters = {n: -row["record"] - 1 if len(of_record[row["record"]]) > 1 else n for n, row in samples.items()}
    answers: dict[tuple[Any, ...], int] = {}
    responses, judgments, voids = [], [], []
    for row in rows:
        if row["said"] is None:
            continue
        key = row["model"], row["variant"], row["repeat"], row["sample"]
        if key not in answers:
            answers[key] = 500 + len(answers)
            responses.append((answers[key], *key, row["outcome"], row["outcome"] == "failed"))
        status = row.get("status") or ("done" if row["said"] else "failed")
        judgments.append((answers[key], row["rubric"], row["said"], status, row["error"]))
        if row["void"]:
            voids.append((answers[key], row["rubric"], row["void"]))
    rubrics = {row["rubric"]: row["sample"] for row in rows}
    text, number, flag = pl.String, pl.Int64, pl.Boolean
    tables = Tables(
        samples=pl.DataFrame(
            [
                (n, row["task"], clusters[n], row["is_control"], row["is_held_out"], row["withdrawn"])
                for n, row in samples.items()
            ],
            schema={
                "sample": number, "task": text, "cluster": number,
                "is_control": flag, "is_held_out": flag, "withdrawn": flag,
            },
            orient="row",
        ),
        rubrics=pl.DataFrame(
            [(rubric, sample, f"R{rubric}") for rubric, sample in rubrics.items()],
            schema={"rubric": number, "sample": number, "key": text},
            orient="row",
        ),
        members=pl.DataFrame(list(members), schema={"facet": text, "value": text, "rubric": number}, orient="row"),
        responses=pl.DataFrame(
            responses,
            schema={
                "response": number, "model": text, "variant": text, "repeat": number,
                "sample": number, "outcome": text, "failed": flag,
            },
            orient="row",
        ),
        judgments=pl.DataFrame(
            judgments,
            schema={"response": number, "rubric": number, "said": text, "status": text, "error": text},
            orient="row",
        ),
        voids=pl.DataFrame(voids, schema=VOIDS, orient="row"),
        variants_of=more.get("variants_of", {}),
        repeats=more.get("repeats", 1),
        cluster_unit=RECORD if shared else SAMPLE,
        pooled=more.get("pooled", True),
    )  # fmt: skip
    return build_frame(models, datasets, rules, tables)
