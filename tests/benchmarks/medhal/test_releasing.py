"""MedHal's configurations, and training conversations without leaks between the splits."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from evaluation.protocol import Sample
from generation import errors
from generation.models import SampleVersion
from generation.releases import services
from generation.releases.data_card import data_card
from generation.releases.exporters import training
from generation.releases.freezing import configured
from generation.releases.freezing.composition import Composition, choices, tally
from mhb_site.benchmarks.medhal import protocol
from mhb_site.benchmarks.medhal.configurations import CONFIGURATIONS
from review.models import User
from tests.benchmarks.medhal.statements import TASK_OF, create_approved_samples, statement

LF_BAL = CONFIGURATIONS[2]


@pytest.mark.django_db
@pytest.mark.both
def test_configurations_leave_out_long_statements_and_balance_tasks_and_labels() -> None:
    sizes = {"medmcqa": 12, "acn": 9, "sumpubmed": 6, "medqa": 7, "mednli": 4}
    contents = [
        statement(number, task=TASK_OF[source], source=source, factual=number % 2 == 0)
        for source, n in sizes.items()
        for number in range(n)
    ]
    statement_length = len(statement(0, factual=True)["statement"])
    contents[-1] = statement(0, task="nli", context="x" * (30_000 - statement_length))  # exactly 30,000: not below
    contents[-2] = statement(0, task="nli", context="é" * (29_999 - statement_length))  # characters, not bytes
    create_approved_samples(contents)
    options: dict[str, Any] = {"with_unreviewed": True}
    tasks = {
        name: tally("medhal", Composition(**options, configuration=name)).counts["task"]
        for name in ("full", "lf", "lf-bal")
    }
    assert tasks["full"] == {"ie": 9, "nli": 4, "qa": 19, "summarization": 6}
    assert tasks["lf"] == {"ie": 9, "nli": 3, "qa": 19, "summarization": 6}
    assert tasks["lf-bal"] == {"ie": 6, "nli": 2, "qa": 6, "summarization": 6}  # NLI: one of each label
    balanced = Composition(**options, configuration="lf-bal", seed=1)
    balanced_tally = tally("medhal", balanced)
    assert balanced_tally.excluded == {"not-drawn": 3 + 1 + 13, "too-long": 1}
    first, repeated = (list(choices("medhal", balanced)) for _ in range(2))
    assert first == repeated
    assert len(first) == balanced_tally.samples == 20
    labels = Counter(
        SampleVersion.objects.filter(pk__in=[pk for pk, _held_out in first]).values_list(
            "sample__task", "content__label"
        )
    )
    assert {labels[task, "factual"] == labels[task, "non-factual"] for task in tasks["lf-bal"]} == {True}
    assert first != list(choices("medhal", Composition(**options, configuration="lf-bal", seed=2)))
    assert Composition.from_json(json.loads(json.dumps(balanced.as_json()))) == balanced
    with pytest.raises(errors.WrongComposition, match="known: full, lf, lf-bal"):
        tally("medhal", Composition(**options, configuration="half"))
    with pytest.raises(errors.WrongComposition, match="known: none"):
        tally("mhb", Composition(configuration="lf"))


@pytest.mark.django_db
def test_pages_show_task_labels_and_files_keep_task_codes() -> None:
    create_approved_samples(
        [statement(number, task=task, factual=number % 2 == 0) for task in ("qa", "nli") for number in range(2)]
    )
    full = Composition(with_unreviewed=True, configuration="full")
    release = services.freeze_release("named", benchmark="medhal", composition=full)
    admin = Client()
    admin.force_login(User.objects.create_superuser("admin"))
    page = admin.get(f"/generation/releases/{release.name}/{release.version}/").content.decode()
    assert "Question answering" in page
    assert ">qa<" not in page
    chinese = admin.get(
        f"/generation/releases/{release.name}/{release.version}/", headers={"accept-language": "zh-hans"}
    )
    assert "自然语言推理" in chinese.content.decode()
    assert data_card(release).count("Task qa (Question answering): 2 samples") == 1
    assert {sample.task for sample in release.samples.all()} == {"qa", "nli"}
    assert {dataset.label for dataset in protocol.PROTOCOL.datasets if ": qa" in dataset.label} == set()


@pytest.mark.plain
def test_whole_records_are_drawn_whatever_the_order_of_the_rows() -> None:
    # 400, 400 and 200, each record with a statement of each label.
    rows = [
        (f"{group}\x1f{label}", "own", f"{group}-{number}")
        for group, n in (("qa", 200), ("ie", 200), ("summarization", 100))
        for number in range(n)
        for label in ("factual", "non-factual")
    ]
    # Not cut to the others, but to as many of each label.
    rows += [("nli\x1ffactual", "own", f"n-{number}") for number in range(30)]
    rows += [("nli\x1fnon-factual", "own", f"n-{number}") for number in range(20)]
    draw = configured.draw(LF_BAL, 7, rows)
    included = Counter(row for row in rows if draw.includes(*row))
    counts = Counter(tuple(group.split("\x1f")) for group, *_ in included.elements())
    assert counts == {
        **{(task, label): 100 for task in LF_BAL.balanced for label in ("factual", "non-factual")},
        ("nli", "factual"): 20,
        ("nli", "non-factual"): 20,
    }
    both = Counter(record for group, _source, record in included if not group.startswith("nli"))
    assert set(both.values()) == {2}  # both statements of a record
    assert configured.draw(LF_BAL, 7, reversed(rows)) == draw


def exported_sample(number: int, content: dict[str, Any], *, record: str = "") -> dict[str, Any]:
    sample = Sample(f"medhal-{number}", content["task"], content)
    fields: dict[str, Any] = dict.fromkeys(("language", "specialty", "arm", "split", "canary"), "")
    fields |= {key: {} for key in ("content", "facets", "citations", "made", "review")}
    messages = [{"role": turn.role, "content": turn.content} for turn in protocol.example(sample)]
    origins = protocol.kept_together(sample)
    return {
        **fields, "sample_id": sample.key, "version": 1, "benchmark": "medhal", "task": sample.task, "simulated": False,
        "source": {"dataset": "own", "id": record or str(number)}, "rubrics": [],
        "training": {"messages": messages, "origins": origins, "split": content["split"]},
    }  # fmt: skip


@pytest.mark.plain
def test_no_origin_is_in_two_splits(tmp_path: Path) -> None:
    samples = []
    for number in range(600):
        # Pairs by inner id; every ten pairs share a context; every fiftieth sample is assigned to
        # the test split.
        pair = number // 2
        content = statement(pair, factual=number % 2 == 0, context=f"Note {pair // 10}.", inner_id=str(pair), pair="")
        made = exported_sample(number, {**content, "split": "test" if number % 50 == 7 else "train"})
        samples.append({**made, "canary": "own-canary"})
    paths = training.TrainingExporter().write(samples, tmp_path)
    assert [path.name for path in paths] == ["train.jsonl", "validation.jsonl", "test.jsonl"]
    splits_of: dict[str, set[str]] = {}
    lines = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in paths}
    assert sum(map(len, lines.values())) == 600
    assert all(lines.values())  # no split is empty
    by_key = {sample["sample_id"]: sample for sample in samples}
    for split, rows in lines.items():
        for line in rows:
            for origin in by_key[line["sample_id"]]["training"]["origins"]:
                splits_of.setdefault(origin, set()).add(split)
    assert {len(splits) for splits in splits_of.values()} == {1}
    canaries = {split: {line.get("canary") for line in rows} for split, rows in lines.items()}
    assert canaries == {"train": {None}, "validation": {None}, "test": {"own-canary"}}, "it forbids training"
    assigned_keys = {sample["sample_id"] for sample in samples if sample["training"]["split"] == "test"}
    assert assigned_keys <= {line["sample_id"] for line in lines["test"]}
    first = lines["train"][0]["messages"]
    assert [turn["role"] for turn in first] == ["user", "assistant"]
    assert first[1]["content"].startswith(
        ("Factual: YES\nExplanation: The statement is factual.", "Factual: NO\nExplanation: According")
    )
    again = tmp_path / "again"
    again.mkdir()
    assert [path.read_bytes() for path in training.TrainingExporter().write(samples, again)] == [
        path.read_bytes() for path in paths
    ]


@pytest.mark.plain
def test_groups_joined_by_a_later_sample_stay_together(tmp_path: Path) -> None:
    """A third sample that names two origins joins them; an assigned test split wins."""
    statements = [statement(number, inner_id=str(number)) for number in range(40)]
    bridge = statement(99, inner_id="3", pair="bridge")
    assigned = {**statement(98, inner_id="", pair="bridge"), "split": "test"}
    contents = [*statements, bridge, assigned]
    paths = training.TrainingExporter().write(
        [exported_sample(number, content) for number, content in enumerate(contents)], tmp_path
    )
    tested = {json.loads(line)["sample_id"] for line in paths[2].read_text().splitlines()}
    assert {"medhal-3", "medhal-40", "medhal-41"} <= tested
