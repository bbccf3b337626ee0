"""Freezing is a job that can be begun anew, of exactly what was chosen; what is left out is counted with its reason."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.models import Freeze, Release, ReleasedSample, Sample, SampleVersion, Source
from generation.releases import export, queries, services
from generation.releases.freezing.composition import Composition
from generation.releases.freezing.spool import Spool
from review.models import User
from tests.conftest import PHYSICIANS, cast
from tests.engine import Manage, approved, conversations_file, imported, reports_file
from tests.populations import population

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def five(folder: Path, models: str) -> list[Sample]:
    """Three conversations and two reports, approved."""
    physicians = cast(*PHYSICIANS)
    first = imported(conversations_file(folder / "own.jsonl", 3), "talks")
    second = imported(reports_file(folder / "own.json", 2), "papers", "pmc-patients")
    return [*approved(first, models, physicians), *approved(second, models, physicians)]


class Killed(BaseException):
    """What no code of ours catches."""


def test_a_freeze_that_was_killed_is_begun_anew(five: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    row = services.start_freeze("own", benchmark="mhb")
    with monkeypatch.context() as patch:
        store = Spool.store

        def killed(spool: Spool, release: Release) -> None:
            store(spool, release)
            raise Killed

        patch.setattr(Spool, "store", killed)
        with pytest.raises(Killed):
            services.run_freeze(row.pk)
    row.refresh_from_db()
    assert (row.status, row.read, row.total) == ("running", 5, 5)
    assert not Release.objects.exists()
    assert not ReleasedSample.objects.exists()
    assert services.run_freeze(row.pk).status == "running", "nobody takes what somebody may still be at"
    assert services.sweep() == []
    Freeze.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert services.sweep() == [row.pk]
    done = services.run_freeze(row.pk)
    assert (done.status, done.tries, done.release) == ("done", 2, Release.objects.get())
    assert ReleasedSample.objects.count() == 5
    assert services.sweep() == []


def test_who_lost_the_lease_stores_nothing(five: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    row = services.start_freeze("own", benchmark="mhb")
    add = Spool.add

    def robbed(spool: Spool, one: object) -> None:
        add(spool, one)  # type: ignore[arg-type]
        Freeze.objects.update(status="queued", token=None, lease_until=None)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "add", robbed)
        assert services.run_freeze(row.pk).status == "queued"
    assert not Release.objects.exists()
    assert services.run_freeze(row.pk).status == "done"


def test_what_is_withdrawn_meanwhile_does_not_go_in(five: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    row = services.start_freeze("own", benchmark="mhb")
    add = Spool.add

    def withdrawing(spool: Spool, one: object) -> None:
        add(spool, one)  # type: ignore[arg-type]
        SampleVersion.objects.filter(sample=five[0]).update(status="withdrawn")

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "add", withdrawing)
        assert services.run_freeze(row.pk).status == "queued"
    release = services.release_of(services.run_freeze(row.pk))
    assert (release.samples_count, release.excluded) == (4, {"withdrawn": 1})


def test_one_freeze_of_a_name_at_a_time(five: list[Sample]) -> None:
    services.start_freeze("own", benchmark="mhb")
    with pytest.raises(errors.FreezeInProgress):
        services.start_freeze("own", benchmark="mhb")


def test_a_freeze_that_finds_nothing_new_says_so(five: list[Sample], adela: User, client: Client) -> None:
    services.freeze_release("own", benchmark="mhb")
    row = services.run_freeze(services.start_freeze("own", benchmark="mhb").pk)
    assert (row.status, row.error) == ("failed", "NothingNew")
    client.force_login(adela)
    page = client.get(reverse("generation:releases")).content.decode()
    assert "There is nothing new to freeze." in page
    assert client.get(reverse("generation:freezes"))["HX-Refresh"] == "true"
    services.start_freeze("another", benchmark="mhb")
    assert "0 of 5 samples" in client.get(reverse("generation:freezes")).content.decode()


def test_the_api_freezes_in_the_background(five: list[Sample], adela: User, client: Client) -> None:
    client.force_login(adela)
    wanted = {"name": "own", "benchmark": "mhb", "where": {"task": "report"}, "held_out": 0.5}
    counted = client.post(reverse("api:releases"), {**wanted, "preview": True}, content_type="application/json").json()
    assert (counted["samples"], counted["excluded"]) == (2, {"other-task": 3})
    answer = client.post(reverse("api:releases"), wanted, content_type="application/json")
    assert (answer.status_code, answer.json()["status"], answer.json()["release"]) == (202, "queued", None)
    services.run_freeze(answer.json()["id"])
    told = client.get(reverse("api:freeze", args=[answer.json()["id"]])).json()
    assert (told["status"], told["release"], told["read"]) == ("done", "own@1", 2)
    assert told["composition"]["where"] == {"task": "report"}
    assert [row["id"] for row in client.get(reverse("api:freezes")).json()["results"]] == [told["id"]]
    wrong = client.post(reverse("api:releases"), {**wanted, "where": {"x": "y"}}, content_type="application/json")
    assert wrong.status_code == 422


# -------------------------------------------------------------------------------------------------------- composition


def samples_of(release: Release) -> set[int]:
    return set(release.samples.values_list("version__sample", flat=True))


def test_a_release_is_composed(five: list[Sample]) -> None:
    batches = sorted({sample.batch_id for sample in five})
    talks, papers = ({sample.pk for sample in five if sample.batch_id == batch} for batch in batches)

    def composed(name: str, **chosen: object) -> Release:
        return services.freeze_release(name, benchmark="mhb", composition=Composition(**chosen))  # type: ignore[arg-type]

    assert samples_of(composed("a", batches=(batches[0],))) == talks
    assert samples_of(composed("b", where={"source": "papers"})) == papers
    assert samples_of(composed("c", where={"task": "report"})) == papers
    release = composed("d", where={"source": "talks", "task": "dialogue", "language": "en"})
    assert samples_of(release) == talks
    assert release.excluded == {"other-source": 2}
    assert release.composition["where"] == {"source": "talks", "task": "dialogue", "language": "en"}
    with pytest.raises(errors.NothingApproved, match="other-language 5"):
        composed("e", where={"language": "zh"})


@pytest.mark.parametrize(
    "wrong", [{"where": {"shape": "round"}}, {"where": {"simulated": "perhaps"}}, {"held_out": 1.0}, {"held_out": -0.1}]
)
@pytest.mark.plain
def test_a_composition_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.WrongComposition):
        Composition(**wrong)  # type: ignore[arg-type]


def test_simulated_and_real_samples_are_not_mixed_unless_asked(five: list[Sample]) -> None:
    User.objects.update(simulated=False)
    versions = SampleVersion.objects.filter(sample__in=five)
    versions.exclude(sample=five[0]).update(simulated=False)
    with pytest.raises(errors.MixedSimulated, match="no 4, yes 1"):
        services.preview("own", benchmark="mhb")
    with pytest.raises(errors.MixedSimulated):
        services.start_freeze("own", benchmark="mhb")

    def chosen(value: str) -> services.FreezePreview:
        return services.preview("own", benchmark="mhb", composition=Composition(where={"simulated": value}))

    assert [chosen(value).samples for value in ("yes", "no", "any")] == [1, 4, 5]
    assert chosen("yes").excluded == {"not-simulated": 4}
    assert chosen("no").excluded == {"simulated": 1}


def test_what_nobody_reviewed_goes_in_only_when_asked_for(five: list[Sample]) -> None:
    from review.models import Case

    Case.objects.filter(lineage=five[0].key).update(ground="unreviewed")
    assert services.preview("own", benchmark="mhb").excluded == {"unreviewed": 1}
    both = services.preview("own", benchmark="mhb", composition=Composition(with_unreviewed=True))
    assert (both.approved, both.not_sampled) == (4, 1)
    only = services.preview("own", benchmark="mhb", composition=Composition(where={"reviewed": "no"}))
    assert (only.samples, only.excluded) == (1, {"reviewed": 4})


def test_a_held_out_split_is_kept_apart(five: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(n for n in range(100) if 0 < sum(holds(five, n)) < 5)
    chosen = Composition(held_out=0.5, seed=seed)
    preview = services.preview("own", benchmark="mhb", composition=chosen)
    release = services.freeze_release("own", benchmark="mhb", composition=chosen)
    expected = {sample.key for sample, held in zip(five, holds(five, seed), strict=True) if held}
    kept = set(release.samples.filter(split="held-out").values_list("key", flat=True))
    assert kept == expected
    assert release.held_out_count == preview.held_out == len(expected)
    export.export_release(release, "jsonl", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    assert {row["sample_id"] for row in rows} == {sample.key for sample in five} - expected
    assert {(row["split"], row["canary"]) for row in rows} == {("public", release.canary)}
    monkeypatch.setattr(queries, "READ", 1)  # in chunks, of which some have nothing of a part
    for split in ReleasedSample.Split:
        keys = release.samples.filter(split=split).order_by("position").values_list("key", flat=True)
        assert [row["sample_id"] for row in export.exported_samples(release, split)] == list(keys)
        export.export_release(release, "jsonl", tmp_path / split, split=split)
        rows = [json.loads(line) for line in (tmp_path / split / "samples.jsonl").read_text().splitlines()]
        assert [row["sample_id"] for row in rows] == list(keys)
    again = services.freeze_release("twin", benchmark="mhb", composition=chosen)
    assert set(again.samples.filter(split="held-out").values_list("key", flat=True)) == expected
    assert again.canary != release.canary


def holds(samples: list[Sample], seed: int) -> list[bool]:
    chosen = Composition(held_out=0.5, seed=seed)
    return [chosen.holds_out(sample.record.source.name, sample.record.external_id) for sample in samples]


@pytest.mark.plain
def test_the_split_depends_on_seed_and_record_alone() -> None:
    chosen = Composition(held_out=0.2, seed=7)
    held = [n for n in range(2000) if chosen.holds_out("own", str(n))]
    assert held == [n for n in range(2000) if Composition(held_out=0.2, seed=7).holds_out("own", str(n))]
    assert 320 < len(held) < 480
    assert held != [n for n in range(2000) if Composition(held_out=0.2, seed=8).holds_out("own", str(n))]
    assert set(held) <= {n for n in range(2000) if Composition(held_out=0.4, seed=7).holds_out("own", str(n))}


def test_the_command_composes(five: list[Sample], manage: Manage) -> None:
    options = ("own", "--benchmark", "mhb", "--where", "task=dialogue", "--held-out", "0.2", "--with-unreviewed")
    preview = manage.json("freeze_release", *options, "--preview")
    assert (preview["samples"], preview["counts"]["source"]) == (3, {"talks": 3})
    made = manage.json("freeze_release", *options)
    assert (made["samples"], made["excluded"]) == (3, {"other-task": 2})
    assert made["held_out"] == preview["held_out"]
    assert "cannot be used" in manage.refused("freeze_release", "own", "--benchmark", "mhb", "--where", "shape=round")
    twice = ("--where", "source=one", "--where", "source=two")
    assert "takes one value" in manage.refused("freeze_release", "own", "--benchmark", "mhb", *twice)
    batch = Source.objects.get(name="papers").records.get(external_id="1-1").samples.get().batch_id
    assert manage.json("freeze_release", "two", "--benchmark", "mhb", "--batch", batch)["samples"] == 2


def test_the_page_previews_what_was_chosen(five: list[Sample], adela: User, client: Client) -> None:
    client.force_login(adela)
    typed = {"name": "own", "benchmark": "mhb", "source": "papers", "held_out": "0.3", "seed": "3"}
    page = client.post(reverse("generation:releases"), typed)
    text = page.content.decode()
    assert page.status_code == 200
    assert "papers: 2" in text
    assert "from another source: 3" in text
    fields = {field.name: field.value() for field in page.context["fields"]}
    answer = client.post(
        reverse("generation:releases"),
        {name: value for name, value in fields.items() if value} | {"seen": page.context["preview"].seen},
    )
    assert answer.status_code == 302
    row = Freeze.objects.get()
    assert Composition.from_json(row.composition) == Composition(where={"source": "papers"}, held_out=0.3, seed=3)
    services.run_freeze(row.pk)
    shown = client.get(reverse("generation:release", args=["own", 1])).content.decode()
    assert "from another source: 3" in shown
