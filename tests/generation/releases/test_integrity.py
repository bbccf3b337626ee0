"""Releases are compared with the event of their freeze: by checks, before exports and runs."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import Run
from evaluation.runs import adding
from generation import errors
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Rubric, Sample
from generation.releases import export, integrity, services
from generation.releases.freezing.composition import Composition
from review.audit import verification
from review.models import PersonEvent
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, endpoint, evaluate_release, launch_run, make_release
from tests.populations import population
from tests.review.audit.tampering import sql, unprotected

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def release(folder: Path, models: str) -> Release:
    """A release of two conversations, one of them held out."""
    make_release(folder, models, accounts_of(*PHYSICIANS), conversations=2)
    halves = (Composition(held_out=0.5, seed=seed) for seed in range(1, 100))
    one = next(half for half in halves if services.preview("halves", benchmark="mhb", composition=half).held_out == 1)
    return services.freeze_release("halves", benchmark="mhb", composition=one)


def faults() -> list[tuple[str, str]]:
    check = verification.run(verification.create_check(None).pk)
    return [(fault.what.value, fault.name) for fault in verification.faults(check)]


def alter(table: str, column: str, value: Any, pk: int) -> None:
    """Change a row of a release, as somebody could who may drop the triggers."""
    with unprotected(table):
        sql(f"UPDATE {table} SET {column} = %s WHERE id = %s", value, pk)


def reword(release: Release, split: str) -> None:
    rubric = ReleasedRubric.objects.filter(sample__release=release, sample__split=split).earliest("pk")
    alter("generation_releasedrubric", "criterion", "Another criterion.", rubric.pk)


def test_a_release_as_frozen_is_found_intact(release: Release) -> None:
    frozen = PersonEvent.objects.filter(kind="freeze", data__name=release.reference).get()
    assert (release.samples_count, release.held_out_count) == (2, 1)
    assert (frozen.data["sha256"], frozen.data["held_out_sha256"]) == (release.sha256, release.held_out_sha256)
    assert faults() == []
    assert verification.not_covered() == []


@pytest.mark.parametrize("split", ["public", "held-out"])
def test_an_altered_sample_is_named_and_neither_exported_nor_run(
    release: Release, split: str, tmp_path: Path, models: str, admin: Client, manage: Manage
) -> None:
    run = evaluate_release(release, models, "sim-careful")
    reword(release, split)
    assert faults() == [("release", "halves@1")]
    code, out, _err = manage("verify_audit")
    assert (code, "halves@1: this release is gone, or differs from the event of its freeze" in out) == (1, True)
    with pytest.raises(errors.ReleaseAltered, match="halves@1"):
        export.Export(release, "csv").write(tmp_path / "csv")
    assert not (tmp_path / "csv").exists()
    with pytest.raises(errors.ReleaseAltered, match="halves@1"):
        launch_run(release, models, "sim-generator")
    with pytest.raises(errors.ReleaseAltered, match="halves@1"):
        adding.check_model(run, endpoint(models, "sim-generator"))
    assert Run.objects.count() == 1
    for format_name in ("jsonl", "csv"):
        address = reverse("api:release-export", args=["halves", 1])
        refused = admin.get(address, {"format": format_name})
        assert (refused.status_code, "halves@1" in refused.content.decode()) == (409, True)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("generation_facet", "value", "Z9"),
        ("generation_releasedsample", "key", "another"),
        ("generation_releasedsample", "task", "report"),
        ("generation_releasedsample", "position", "77"),
        ("generation_release", "about", '{"card": {"title": "Another"}}'),
        ("generation_release", "counts", "{}"),
        ("generation_release", "canary", "none"),
        ("generation_release", "simulated", "0"),
        ("generation_releasedsample", "exported", "{}"),
        ("generation_releasedsample", "exported", "[]"),
        ("generation_releasedrubric", "traps", "1e999"),
    ],
)
def test_what_is_in_no_line_of_a_release_is_covered(release: Release, table: str, column: str, value: str) -> None:
    rows = {
        "generation_facet": Facet.objects.filter(rubric__sample__release=release),
        "generation_releasedsample": ReleasedSample.objects.filter(release=release),
        "generation_releasedrubric": ReleasedRubric.objects.filter(sample__release=release),
        "generation_release": Release.objects.filter(pk=release.pk),
    }
    alter(table, column, value, rows[table].earliest("pk").pk)
    assert faults() == [("release", "halves@1")]


@pytest.mark.parametrize("link", ["version", "arm", "polarity"])
def test_what_numbers_are_counted_by_is_what_was_frozen(release: Release, link: str) -> None:
    """Rates are of an arm and a polarity, which stand beside the rows of the release."""
    first, second = ReleasedSample.objects.filter(release=release).order_by("pk")
    rubric = ReleasedRubric.objects.filter(sample=first).exclude(polarity="").earliest("pk")
    if link == "version":
        alter("generation_releasedsample", "version_id", second.version_id, first.pk)
    elif link == "arm":
        Sample.objects.filter(pk=first.version.sample_id).update(arm=Sample.Arm.CONTROL)
    else:
        other = {"must": "must not", "must not": "must"}[rubric.polarity]
        Rubric.objects.filter(version=first.version_id, key=rubric.key).update(polarity=other)
    assert ("release", "halves@1") in faults(), "and another release of the same sample"


def test_a_facet_removed_or_added_is_named(release: Release) -> None:
    facets = Facet.objects.filter(rubric__sample__release=release)
    first = facets.earliest("pk")
    with unprotected("generation_facet"):
        sql("DELETE FROM generation_facet WHERE id = %s", first.pk)
        assert faults() == [("release", "halves@1")]
        Facet.objects.create(pk=first.pk, rubric_id=first.rubric_id, name=first.name, value=first.value)
        assert faults() == []
        Facet.objects.create(rubric_id=first.rubric_id, name=first.name, value="Z9")
    assert faults() == [("release", "halves@1")]


def test_numbers_are_compared_as_every_database_returns_them() -> None:
    stored = {"a": [2.0, -0.0, 0.25, 1e16], "b": {"c": 3, "d": True}}
    assert integrity._plain(stored) == {"a": [2, 0, 0.25, 10**16], "b": {"c": 3, "d": True}}
    assert repr(integrity._plain([2.0, -0.0])) == "[2, 0]"


def test_a_checksum_changed_with_its_samples_is_named(release: Release) -> None:
    reword(release, "public")
    alter("generation_release", "sha256", integrity._digest(release, "public"), release.pk)
    assert faults() == [("release", "halves@1")]


def test_a_release_from_before_the_record_is_not_covered(
    release: Release, tmp_path: Path, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "record_digests", lambda _release: None)
    older = services.freeze_release("older", benchmark="mhb")
    reword(older, "public")
    assert verification.not_covered() == ["older@1"]
    assert manage.json("verify_audit")["not_covered"] == ["older@1"]
    assert "Not covered, frozen before freezes recorded checksums: older@1" in manage("verify_audit")[1]
    export.Export(older, "csv").write(tmp_path / "csv")
