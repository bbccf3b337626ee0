"""MedHal's configurations, and conversations to train on that leak nothing from one part into another."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from evaluation.protocol import Sample
from generation import errors
from generation.releases import services
from generation.releases.data_card import data_card
from generation.releases.exporters import training
from generation.releases.freezing import configured
from generation.releases.freezing.composition import Composition, choices, tally
from mhb_site.benchmarks.medhal import protocol
from mhb_site.benchmarks.medhal.configurations import CONFIGURATIONS, TASK_OF
from review.models import User
from tests.benchmarks.medhal.statements import approved, statement

LF_BAL = CONFIGURATIONS[2]


@pytest.mark.django_db
@pytest.mark.both
def test_configurations_leave_out_what_is_too_long_and_cut_the_three_large_sources() -> None:
    sizes = {"medmcqa": 12, "acn": 9, "sumpubmed": 6, "medqa": 7, "mednli": 2}
    contents = [
        statement(at, task=TASK_OF[source], source=source, factual=at % 2 == 0)
        for source, n in sizes.items()
        for at in range(n)
    ]
    own = len(statement(0, factual=True)["statement"])
    contents[-1] = statement(0, task="nli", context="x" * (30_000 - own))  # exactly 30,000: not below
    contents[-2] = statement(0, task="nli", context="é" * (29_999 - own))  # characters, not bytes
    approved(contents)
    chosen: dict[str, Any] = {"with_unreviewed": True}
    tasks = {
        name: tally("medhal", Composition(**chosen, configuration=name)).counts["task"]
        for name in ("full", "lf", "lf-bal")
    }
    assert tasks["full"] == {"ie": 9, "nli": 2, "qa": 19, "summarization": 6}
    assert tasks["lf"] == {"ie": 9, "nli": 1, "qa": 19, "summarization": 6}
    assert tasks["lf-bal"] == {"ie": 6, "nli": 1, "qa": 6 + 7, "summarization": 6}  # MedQA is whole
    balanced = Composition(**chosen, configuration="lf-bal", seed=1)
    told = tally("medhal", balanced)
    assert told.excluded == {"not-drawn": 9, "too-long": 1}
    first, again = (list(choices("medhal", balanced)) for _ in range(2))
    assert first == again
    assert len(first) == told.samples == 26
    assert first != list(choices("medhal", Composition(**chosen, configuration="lf-bal", seed=2)))
    assert Composition.from_json(json.loads(json.dumps(balanced.as_json()))) == balanced
    with pytest.raises(errors.WrongComposition, match="known: full, lf, lf-bal"):
        tally("medhal", Composition(**chosen, configuration="half"))
    with pytest.raises(errors.WrongComposition, match="known: none"):
        tally("mhb", Composition(configuration="lf"))


@pytest.mark.django_db
def test_tasks_have_names_for_people_and_keep_their_own_in_files() -> None:
    approved([statement(at, task=task, factual=at % 2 == 0) for task in ("qa", "nli") for at in range(2)])
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
    assert {one.label for one in protocol.PROTOCOL.datasets if ": qa" in one.label} == set()


@pytest.mark.plain
def test_records_are_drawn_whole_and_alike_from_both_ends() -> None:
    rows = [(group, "own", f"{group}-{at // 2}") for group in ("medmcqa", "acn", "sumpubmed") for at in range(400)]
    rows = rows[: 400 + 200 + 400]  # 400, 400 and 200, each record twice
    rows += [("medqa", "own", f"q-{at}") for at in range(50)]  # of no group that is cut
    found = configured.draw(LF_BAL, 7, rows)
    taken = Counter(row for row in rows if found.includes(*row))
    counts = Counter(group for group, *_ in taken.elements())
    assert counts == {"medmcqa": 200, "acn": 200, "sumpubmed": 200, "medqa": 50}
    assert {n for (group, *_), n in taken.items() if group != "medqa"} == {2}  # a record goes in whole
    assert configured.draw(LF_BAL, 7, reversed(rows)) == found


def exported(at: int, content: dict[str, Any], *, record: str = "") -> dict[str, Any]:
    sample = Sample(f"medhal-{at}", content["task"], content)
    about: dict[str, Any] = dict.fromkeys(("language", "specialty", "arm", "split", "canary"), "")
    about |= {key: {} for key in ("content", "facets", "citations", "made", "review")}
    asked = [{"role": each.role, "content": each.content} for each in protocol.example(sample)]
    origins = protocol.kept_together(sample)
    return {
        **about, "sample_id": sample.key, "version": 1, "benchmark": "medhal", "task": sample.task, "simulated": False,
        "source": {"dataset": "own", "id": record or str(at)}, "rubrics": [],
        "training": {"messages": asked, "origins": origins, "split": content["split"]},
    }  # fmt: skip


@pytest.mark.plain
def test_no_origin_is_in_two_parts(tmp_path: Path) -> None:
    samples = []
    for at in range(600):
        # Pairs by inner id; every ten pairs share a context; every fiftieth is told to be of a test split.
        pair = at // 2
        content = statement(pair, factual=at % 2 == 0, context=f"Note {pair // 10}.", inner_id=str(pair), pair="")
        samples.append(exported(at, {**content, "split": "test" if at % 50 == 7 else "train"}))
    paths = training.write(samples, tmp_path)
    assert [path.name for path in paths] == ["train.jsonl", "validation.jsonl", "test.jsonl"]
    where: dict[str, set[str]] = {}
    lines = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in paths}
    assert sum(map(len, lines.values())) == 600
    assert all(lines.values())  # none is empty
    by_key = {each["sample_id"]: each for each in samples}
    for part, found in lines.items():
        for line in found:
            for origin in by_key[line["sample_id"]]["training"]["origins"]:
                where.setdefault(origin, set()).add(part)
    assert {len(parts) for parts in where.values()} == {1}
    told = {each["sample_id"] for each in samples if each["training"]["split"] == "test"}
    assert told <= {line["sample_id"] for line in lines["test"]}
    first = lines["train"][0]["messages"]
    assert [turn["role"] for turn in first] == ["user", "assistant"]
    assert first[1]["content"].startswith(
        ("Factual: YES\nExplanation: The statement is factual.", "Factual: NO\nExplanation: According")
    )
    again = tmp_path / "again"
    again.mkdir()
    assert [path.read_bytes() for path in training.write(samples, again)] == [path.read_bytes() for path in paths]


@pytest.mark.plain
def test_groups_that_meet_late_go_together(tmp_path: Path) -> None:
    """Two origins are joined by a third sample that names both; the told test split wins."""
    ones = [statement(at, inner_id=str(at)) for at in range(40)]
    bridge = statement(99, inner_id="3", pair="bridge")
    told = {**statement(98, inner_id="", pair="bridge"), "split": "test"}
    contents = [*ones, bridge, told]
    paths = training.write([exported(at, content) for at, content in enumerate(contents)], tmp_path)
    tested = {json.loads(line)["sample_id"] for line in paths[2].read_text().splitlines()}
    assert {"medhal-3", "medhal-40", "medhal-41"} <= tested
