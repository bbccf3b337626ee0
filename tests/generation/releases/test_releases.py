"""Releases contain approved samples only, have counts, cannot change, and export the same bytes."""

import hashlib
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from bench.rows import TURNS
from evaluation.models import Run
from evaluation.reports import queries as reports_queries
from evaluation.reports.formats import as_dict, as_markdown
from generation import errors
from generation.endpoints import services as endpoints_services
from generation.models import (
    Call,
    Facet,
    Release,
    ReleasedRubric,
    ReleasedSample,
    Sample,
    SampleVersion,
    SourceRecord,
)
from generation.recipes import registry
from generation.releases import data_card, export, exporters
from generation.releases import queries as releases_queries
from generation.releases import services as releases_services
from generation.releases.exporters.base import canonical
from generation.releases.queries import exported_samples
from mhb_site.benchmarks.mhb import taxonomy
from review.models import Case, User
from review.rules.questions import Form, RubricAnswer
from tests.benchmarks.mhb.helpers import dialogue_reply
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import (
    CANARY,
    Manage,
    approve_samples,
    bare_release,
    conversation,
    conversations_file,
    endpoint,
    evaluate_release,
    import_file,
    make_release,
    run_batch,
)
from tests.generation.llm.helpers import fake_endpoint
from tests.populations import population
from tests.review.approve import approval_of, evidence_of, rejection_of
from tests.review.factories import claim_and_submit

pytestmark = pytest.mark.django_db
CORRECTED = RubricAnswer("corrected", wording="Corrected by two.", severity="severe")


def freeze(name: str = "own") -> Release:
    return releases_services.freeze_release(name, benchmark="mhb")


def trap(code: str) -> dict[str, str]:
    return {"code": code, "where": "turns 1, 2 and 5", "false": f"Cephalorin, as {code}.", "why": "It is not so."}


def rubric(number: int, *codes: str) -> dict[str, Any]:
    return {"criterion": f"The response must do thing {number} about Cephalorin.", "traps": list(codes)}


# The formats that any release fits; nothing of this benchmark can be trained on.
FITTING = [name for name in exporters.available() if name not in ("supervision", "training")]


@population
def known_samples(folder: Path) -> list[Sample]:
    """Two approved samples whose traps and rubrics are known, for the counts below."""
    replies = [
        dialogue_reply(
            traps=[trap("A1"), trap("C2")], rubrics=[rubric(1, "A1"), rubric(2, "A1", "C2"), rubric(3, "C2", "C2")]
        ),
        dialogue_reply(traps=[trap("A1"), trap("A3")], rubrics=[rubric(1, "A1", "A3"), rubric(2, "A3")]),
    ]
    with fake_endpoint(*map(json.dumps, replies)) as server:
        *earlier, last = TURNS  # the replies alter these turns
        records = [
            conversation(number, prompt=[*earlier, {**last, "content": f"{last['content']} {number}"}])
            for number in (1, 2)
        ]
        source = import_file(conversations_file(folder / "own.jsonl", *records))
        endpoints_services.add_endpoint(name="sim-generator", url=server.url, model="m-1", concurrency=1)
        return approve_samples(source, server.url, accounts_of("ana", "bo"))


@pytest.mark.both
def test_a_release_counts_samples_and_rubrics(known_samples: list[Sample]) -> None:
    release = freeze()
    assert (release.samples_count, release.rubrics_count, release.version) == (2, 5, 1)
    assert release.counts == {
        "task": {"dialogue": {"samples": 2, "rubrics": 5}},
        "cluster": {"A": {"samples": 2, "rubrics": 4}, "C": {"samples": 1, "rubrics": 2}},
        "subtype": {
            "A1": {"samples": 2, "rubrics": 3},
            "A3": {"samples": 1, "rubrics": 2},
            "C2": {"samples": 1, "rubrics": 2},
        },
        "severity": {"moderate": {"samples": 2, "rubrics": 5}},
    }
    facets = Facet.objects.filter(rubric__sample__release=release)
    assert facets.filter(name="cluster").count() == 6
    assert facets.filter(name="subtype").count() == 7
    assert not release.simulated
    assert release.generators == ["m-1 (sim-generator)"]


@pytest.mark.both
def test_a_batch_is_counted_by_texts_that_look_like_numbers(
    known_samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"model": "4", "word": "true", "names": ["4", "x"], "flag": True, "none": None}
    SampleVersion.objects.update(content=content)
    monkeypatch.setattr(registry, "facet_fields", lambda _benchmark: (*content, "absent"))
    monkeypatch.setattr(registry, "facets", lambda *arguments: {"content": [json.dumps(arguments[-1], sort_keys=True)]})
    counts = releases_queries.composition(known_samples[0].batch)
    del content["none"]
    assert [json.loads(value) for value in counts["content"]] == [content]


def test_only_approved_samples_are_released(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    with pytest.raises(errors.NothingApproved):
        freeze()
    run_batch(source, endpoint(models))
    with pytest.raises(errors.NothingApproved):
        freeze()
    for answers in (approval_of, partial(rejection_of, reason="Implausible.")):
        claim_and_submit(ana, answers)
        claim_and_submit(bo, answers, answers)
    release = freeze()  # which applies what has just been decided
    assert release.samples_count == 1
    assert release.samples.get().version.sample == Sample.objects.get(status="approved")
    assert [row["samples"] for row in release.sources] == [1]


def _next_form() -> Form:
    case = Case.objects.filter(state="primary").order_by("pk").first()
    assert case is not None
    return case.frozen.form


def test_the_corrected_wording_is_released(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    form = _next_form()
    unchanged = approval_of(form)
    answers = replace(unchanged, rubrics={**unchanged.rubrics, "R1": CORRECTED})
    claim_and_submit(ana, answers)
    claim_and_submit(bo, answers, answers)
    release = freeze()  # which applies what has just been decided
    assert release.samples.get().rubrics.get(key="R1").criterion == "Corrected by two."
    [exported] = exported_samples(release)
    assert exported["rubrics"][0]["criterion"] == "Corrected by two."
    assert [rubric["severity"] for rubric in exported["rubrics"][:2]] == ["severe", "moderate"]
    assert exported["citations"] == [asdict(each) for each in evidence_of(form)]
    assert set(exported["facets"]["severity"]) == {"severe", "moderate"}
    assert exported["review"] == {"ground": "consensus", "physicians": 2}
    assert exported["simulated"]


def test_freezing_again_needs_new_samples_and_makes_the_next_version(
    tmp_path: Path, models: str, physicians: list[User]
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 4))
    approve_samples(source, models, physicians, 2)
    first = freeze()
    with pytest.raises(errors.NothingNew):
        freeze()
    assert freeze("other-name").version == 1
    approve_samples(source, models, physicians, 2)
    second = freeze()
    assert (first.version, second.version) == (1, 2)
    assert (first.samples.count(), second.samples.count()) == (2, 4)
    assert [row["sample_id"] for row in exported_samples(second)][:2] == [
        row["sample_id"] for row in exported_samples(first)
    ]
    assert (
        releases_queries.release("own")
        == releases_queries.release("own@2")
        == releases_queries.release("own", 2)
        == second
    )
    assert releases_queries.release("own@1") == first


@pytest.mark.parametrize("name", ["none", "own@3", "own@0", "own@x", "own@²", "own@-1", "own@" + "9" * 5000])
def test_an_unknown_release_is_refused(known_samples: list[Sample], name: str) -> None:
    freeze()
    with pytest.raises(errors.UnknownRelease):
        releases_queries.release(name)


@pytest.mark.parametrize("name", ["", "two words", "own@2"])
def test_a_name_that_does_not_fit_in_a_url_is_refused(known_samples: list[Sample], name: str) -> None:
    with pytest.raises(ValidationError):
        freeze(name)


def test_a_name_belongs_to_one_benchmark() -> None:
    bare_release(("dialogue", [["A1"]]))
    Release.objects.bulk_create([Release(**{**_fields(Release.objects.get()), "name": "own", "benchmark": "another"})])
    with pytest.raises(errors.OtherBenchmark, match="another"):
        freeze()


def _fields(release: Release) -> dict[str, Any]:
    return {field.name: getattr(release, field.name) for field in Release._meta.concrete_fields if field.name != "id"}


@pytest.mark.both
@pytest.mark.parametrize("model", [Release, ReleasedSample, ReleasedRubric, Facet])
def test_a_frozen_release_cannot_be_changed(model: type[Model]) -> None:
    bare_release(("dialogue", [["A1"]]))
    rows = model._default_manager.all()
    field = {Release: "name", ReleasedSample: "key", ReleasedRubric: "criterion", Facet: "value"}[model]
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows.update(**{field: "changed"})
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {model._meta.db_table}")
    assert rows.exists()
    assert not rows.filter(**{field: "changed"}).exists()


# ------------------------------------------------------------------------------------------ exports


@population
def release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=3, reports=2)


@pytest.mark.both
@pytest.mark.parametrize("format_name", FITTING)
def test_the_same_release_gives_the_same_bytes_and_verifies(
    release: Release, tmp_path: Path, manage: Manage, format_name: str
) -> None:
    folders = [tmp_path / "one", tmp_path / "two" / "deep"]
    manifests = [export.Export(release, format_name).write(folder) for folder in folders]
    files = [
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in folders
    ]
    assert manifests[0] == manifests[1]
    assert files[0] == files[1]
    assert {"DATACARD.md", "manifest.json", "SHA256SUMS"} < files[0].keys()
    listed = {entry["path"]: (entry["sha256"], entry["bytes"]) for entry in manifests[0]["files"]}
    assert listed == {
        name: (hashlib.sha256(data).hexdigest(), len(data))
        for name, data in files[0].items()
        if name not in ("manifest.json", "SHA256SUMS")
    }
    sums = {line[66:]: line[:64] for line in files[0]["SHA256SUMS"].decode().splitlines()}
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in files[0].items() if name != "SHA256SUMS"}
    assert (manifests[0]["release"], manifests[0]["version"], manifests[0]["format"]) == ("own", 1, format_name)
    if format_name == "jsonl":
        assert listed["samples.jsonl"][0] == release.sha256
    assert manage.json("verify_release", folders[0]) == {"faults": [], "failed": 0}


@pytest.mark.both
def test_order_and_keys_do_not_depend_on_the_database(release: Release, tmp_path: Path) -> None:
    export.Export(release, "jsonl").write(tmp_path / "out")
    lines = (tmp_path / "out" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    numbers = [int(row["sample_id"].rpartition("-")[2]) for row in rows]
    assert numbers == sorted(numbers)
    for row, line in zip(rows, lines, strict=True):
        assert all(f'"{name}":{canonical(value)}' in line for name, value in row.items())
        assert [rubric["key"] for rubric in row["rubrics"]] == [f"R{n}" for n in range(1, len(row["rubrics"]) + 1)]


def test_an_export_describes_each_sample(release: Release) -> None:
    rows = list(exported_samples(release))
    assert len(rows) == release.samples_count == 5
    assert sum(len(row["rubrics"]) for row in rows) == release.rubrics_count
    for row in rows:
        sample = Sample.objects.get(pk=int(row["sample_id"].rpartition("-")[2]))
        assert row["sample_id"] == sample.key
        assert (row["task"], row["version"], row["simulated"]) == (sample.task, 1, True)
        assert row["source"]["id"] == sample.record.external_id
        assert row["source"]["licence"] == {"dialogue": "MIT", "report": "CC BY-NC-SA 4.0"}[row["task"]]
        traps = {code for entry in row["rubrics"] for code in entry["traps"]}
        assert set(row["facets"]["subtype"]) == traps
        assert set(row["facets"]["cluster"]) == {code[0] for code in traps}


def test_the_counts_match_the_exported_rows(release: Release) -> None:
    expected: dict[str, dict[str, dict[str, int]]] = {}
    for row in exported_samples(release):
        counts: dict[str, dict[str, int]] = {"task": {row["task"]: len(row["rubrics"])}}
        for entry in row["rubrics"]:
            facets = taxonomy.facets(row["task"], entry["traps"], taxonomy.TERMS, row["content"])
            for name, values in {**facets, "severity": [entry["severity"]]}.items():
                for value in values:
                    counts.setdefault(name, {}).setdefault(value, 0)
                    counts[name][value] += 1
        for name, values_of in counts.items():
            for value, n in values_of.items():
                cell = expected.setdefault(name, {}).setdefault(value, {"samples": 0, "rubrics": 0})
                cell["samples"] += 1
                cell["rubrics"] += n
    assert release.counts == expected


def test_the_data_card_describes_the_release(release: Release) -> None:
    card = data_card.data_card(release)
    for text in (
        "# own, version 1",
        "**Simulated models: not evidence.**",
        "5 samples",
        release.sha256,
        "sim-generator (sim-generator)",
        "Self-preference: models of the family `sim` (",
        "Licence: MIT",
        "Licence: CC BY-NC-SA 4.0",
        "arXiv:2505.08775",
        "Restrictions: non-commercial, share-alike",
        "Restrictions: contamination canary",
        f"| dialogue | 3 | {release.counts['task']['dialogue']['rubrics']} |",
        f"| report | 2 | {release.counts['task']['report']['rubrics']} |",
    ):
        assert text in card, text
    assert "&" not in card, "Markdown, not HTML"


def test_a_data_card_without_simulated_models_has_no_notice(known_samples: list[Sample]) -> None:
    assert "Simulated" not in data_card.data_card(freeze())


def test_private_data_is_nowhere_else(release: Release, models: str, tmp_path: Path) -> None:
    """HealthBench's canary is in its record, and in no other row, request or file."""
    evaluate_release(release, models, "sim-average")
    assert SourceRecord.objects.filter(private__canary=CANARY).count() == 3
    rows_checked = 0
    for model in apps.get_models():
        columns = [field.attname for field in model._meta.concrete_fields if field.attname != "private"]
        for row in model._base_manager.values_list(*columns):
            rows_checked += 1
            assert CANARY not in json.dumps(row, default=str, ensure_ascii=False), model
    assert rows_checked > Call.objects.count() > 5 + 5
    for format_name in FITTING:
        export.Export(release, format_name).write(tmp_path / format_name)
        for path in filter(Path.is_file, (tmp_path / format_name).rglob("*")):
            assert CANARY.encode() not in path.read_bytes()


def test_a_release_names_its_simulated_reviewers(
    known_samples: list[Sample], bo: User, tmp_path: Path, adela: User, client: Client
) -> None:
    plain = freeze("plain")
    assert plain.reviewers == {"physicians": 2, "simulated": 0, "simulated_samples": 0}
    assert "imulated reviewers" not in data_card.data_card(plain)
    User.objects.filter(pk=bo.pk).update(simulated=True)
    release = freeze("simulated-reviewers")
    assert release.sha256 != plain.sha256
    assert release.reviewers == {"physicians": 2, "simulated": 1, "simulated_samples": 2}
    card = data_card.data_card(release)
    assert "**Simulated reviewers: not evidence.** 2 of 2 reviewed samples" in card
    assert "(1 of 2 reviewers)" in card
    assert "each approved by physicians, some of them simulated." in card
    assert {sample["review"]["simulated_physicians"] for sample in exported_samples(release)} == {1}
    export.Export(release, "jsonl").write(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["reviewers"] == release.reviewers

    client.force_login(adela)
    for name in ("release", "release-samples"):
        page = client.get(reverse(f"generation:{name}", args=["simulated-reviewers", 1])).content.decode()
        assert "Simulated reviewers: not evidence" in page, name
        other = client.get(reverse(f"generation:{name}", args=["plain", 1])).content.decode()
        assert "Simulated reviewers" not in other, name
    assert "simulated reviewers" in client.get(reverse("generation:releases")).content.decode()
    release_json = client.get(reverse("api:release", args=["simulated-reviewers", 1])).json()
    assert release_json["reviewers"] == release.reviewers
    assert "Simulated reviewers" in client.get(reverse("review:agreement")).content.decode()
    assert "Bo Berg (simulated)" in client.get(reverse("review:people")).content.decode()
    assert client.get(reverse("api:person", args=[bo.pk])).json()["simulated"]

    User.objects.filter(pk=bo.pk).update(simulated=True)
    everybody = User.objects.filter(role="physician")
    everybody.update(simulated=True)
    assert "each approved by simulated physicians." in data_card.data_card(freeze("all"))


def test_a_run_names_the_simulated_reviewers_of_its_release(
    known_samples: list[Sample], bo: User, adela: User, client: Client
) -> None:
    User.objects.filter(pk=bo.pk).update(simulated=True)
    release = freeze("simulated-reviewers")
    run = Run.objects.create(release=release, created_at=timezone.now())
    client.force_login(adela)
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "Simulated reviewers: not evidence" in page
    report = reports_queries.report(run)
    assert as_dict(report)["simulated_reviewers"] is True
    assert "> **Simulated reviewers: not evidence.**" in as_markdown(report)
    assert client.get(reverse("api:run-report", args=[run.pk])).json()["simulated_reviewers"] is True
