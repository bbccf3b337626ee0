"""Freezing is a job that can be restarted, and takes exactly the chosen samples.

Samples that are left out are counted by reason.
"""

import errno
import json
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.models import Freeze, Release, ReleasedSample, Sample, SampleVersion, Source
from generation.outcomes import reopening
from generation.releases import export, queries, services
from generation.releases.citing import bibtex
from generation.releases.freezing.composition import Composition, Tally, choices
from generation.releases.freezing.spool import Spool
from generation.releases.queries import exported_samples
from review.audit import verification
from review.errors import DiskFull
from review.models import User
from tests.conftest import PHYSICIANS, Beside, RunConcurrently, accounts_of
from tests.engine import Manage, approve_samples, conversations_file, import_file, reports_file
from tests.populations import population

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def approved_samples(folder: Path, models: str) -> list[Sample]:
    """Three conversations and two reports, approved."""
    physicians = accounts_of(*PHYSICIANS)
    first = import_file(conversations_file(folder / "own.jsonl", 3), "talks")
    second = import_file(reports_file(folder / "own.json", 2), "papers", "pmc-patients")
    return [*approve_samples(first, models, physicians), *approve_samples(second, models, physicians)]


class Killed(BaseException):
    """An exception that no product code catches."""


def test_a_killed_freeze_is_restarted(approved_samples: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    freeze = services.start_freeze("own", benchmark="mhb")
    with monkeypatch.context() as patch:
        store = Spool.store

        def store_and_die(spool: Spool, release: Release) -> None:
            store(spool, release)
            raise Killed

        patch.setattr(Spool, "store", store_and_die)
        with pytest.raises(Killed):
            services.run_freeze(freeze.pk)
    freeze.refresh_from_db()
    assert (freeze.status, freeze.read, freeze.total) == ("running", 5, 5)
    assert not Release.objects.exists()
    assert not ReleasedSample.objects.exists()
    assert services.run_freeze(freeze.pk).status == "running", (
        "a freeze with a valid lease is not claimed by another worker"
    )
    assert services.sweep() == []
    Freeze.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert services.sweep() == [freeze.pk]
    freeze_done = services.run_freeze(freeze.pk)
    assert (freeze_done.status, freeze_done.tries, freeze_done.release) == ("done", 2, Release.objects.get())
    assert ReleasedSample.objects.count() == 5
    assert services.sweep() == []


def test_a_worker_that_lost_its_lease_stores_nothing(
    approved_samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = services.start_freeze("own", benchmark="mhb")
    add = Spool.add

    def add_and_lose_lease(spool: Spool, sample: object) -> None:
        add(spool, sample)  # type: ignore[arg-type]
        Freeze.objects.update(status="queued", token=None, lease_until=None)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "add", add_and_lose_lease)
        assert services.run_freeze(freeze.pk).status == "queued"
    assert not Release.objects.exists()
    assert services.run_freeze(freeze.pk).status == "done"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OperationalError("database or disk is full")]
)
def test_a_full_disk_ends_a_freeze_with_a_sentence(
    approved_samples: list[Sample], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """At once, and not as a freeze that has killed three workers."""
    freeze = services.start_freeze("own", benchmark="mhb")

    def refuse(_spool: Spool, _sample: object) -> None:
        raise error

    monkeypatch.setattr(Spool, "add", refuse)
    ended = services.run_freeze(freeze.pk)
    assert (ended.status, ended.error, Release.objects.count()) == ("failed", "DiskFull", 0)
    assert ended.reason == str(DiskFull())
    with pytest.raises(DiskFull) as raised:
        services.release_of(ended)
    assert (raised.value.status, str(raised.value)) == (507, ended.reason)


def test_a_sample_withdrawn_during_a_freeze_is_left_out(
    approved_samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = services.start_freeze("own", benchmark="mhb")
    add = Spool.add

    def add_and_withdraw(spool: Spool, sample: object) -> None:
        add(spool, sample)  # type: ignore[arg-type]
        SampleVersion.objects.filter(sample=approved_samples[0]).update(status="withdrawn")

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "add", add_and_withdraw)
        assert services.run_freeze(freeze.pk).status == "queued"
    release = services.release_of(services.run_freeze(freeze.pk))
    assert (release.samples_count, release.excluded) == (4, {"withdrawn": 1})


def test_one_name_has_one_freeze_at_a_time_and_wakes_workers_for_it(
    approved_samples: list[Sample], sent_tasks: list[tuple[Any, ...]], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        row = services.start_freeze("own", benchmark="mhb")
    assert sent_tasks == [("run_freeze", row.pk)]
    with pytest.raises(errors.FreezeInProgress):
        services.start_freeze("own", benchmark="mhb")


def test_two_freezes_of_a_name_that_start_at_once_are_one(
    run_concurrently: RunConcurrently, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_counted = threading.Barrier(2)

    def count_with_the_other(*_args: Any) -> Tally:
        both_counted.wait(timeout=120)
        return Tally(samples=1, excluded={}, grounds={}, counts={})

    monkeypatch.setattr(services, "tally", count_with_the_other)
    outcomes = run_concurrently([partial(services.start_freeze, "own", benchmark="mhb")] * 2)
    assert {type(outcome) for outcome in outcomes} == {Freeze, errors.FreezeInProgress}


def test_a_sample_is_not_reopened_while_a_freeze_stores_it(
    beside: Beside, tmp_path: Path, models: str, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    [sample] = approve_samples(source, models, accounts_of(*PHYSICIANS))
    careless = sample.versions.get().case.assignments.get(role="primary").physician
    assert careless is not None
    reopen = partial(reopening.reopen, careless.pk, actor=adela, reason="Two seconds a case.")
    outcomes, last_sequence = [], verification.last_sequence

    def while_storing() -> int:
        outcomes.append(beside(reopen))
        return last_sequence()

    monkeypatch.setattr(verification, "last_sequence", while_storing)
    services.freeze_release("own", benchmark="mhb")
    assert [type(outcome) for outcome in outcomes] == [OperationalError]
    assert reopen().cases == 0, "they are in a release now"


def test_a_freeze_without_new_samples_fails_and_says_so(
    approved_samples: list[Sample], adela: User, client: Client
) -> None:
    services.freeze_release("own", benchmark="mhb")
    row = services.run_freeze(services.start_freeze("own", benchmark="mhb").pk)
    assert (row.status, row.error) == ("failed", "NothingNew")
    client.force_login(adela)
    page = client.get(reverse("generation:releases")).content.decode()
    assert "There is nothing new to freeze." in page
    assert client.get(reverse("generation:freezes"))["HX-Refresh"] == "true"
    services.start_freeze("another", benchmark="mhb")
    assert "0 of 5 samples" in client.get(reverse("generation:freezes")).content.decode()


def test_the_api_freezes_in_the_background(approved_samples: list[Sample], adela: User, client: Client) -> None:
    client.force_login(adela)
    body = {"name": "own", "benchmark": "mhb", "where": {"task": "report"}, "held_out": 0.5}
    preview = client.post(reverse("api:releases"), {**body, "preview": True}, content_type="application/json").json()
    assert (preview["samples"], preview["excluded"]) == (2, {"other-task": 3})
    response = client.post(reverse("api:releases"), body, content_type="application/json")
    assert (response.status_code, response.json()["status"], response.json()["release"]) == (202, "queued", None)
    services.run_freeze(response.json()["id"])
    freeze = client.get(reverse("api:freeze", args=[response.json()["id"]])).json()
    assert (freeze["status"], freeze["release"], freeze["read"]) == ("done", "own@1", 2)
    assert freeze["composition"]["where"] == {"task": "report"}
    assert [row["id"] for row in client.get(reverse("api:freezes")).json()["results"]] == [freeze["id"]]
    wrong = client.post(reverse("api:releases"), {**body, "where": {"x": "y"}}, content_type="application/json")
    assert wrong.status_code == 422


# -------------------------------------------------------------------------------------- composition


def samples_of(release: Release) -> set[int]:
    return set(release.samples.values_list("version__sample", flat=True))


def test_a_release_is_composed(approved_samples: list[Sample]) -> None:
    batches = sorted({sample.batch_id for sample in approved_samples})
    talks, papers = ({sample.pk for sample in approved_samples if sample.batch_id == batch} for batch in batches)

    def freeze_composed(name: str, **options: object) -> Release:
        return services.freeze_release(name, benchmark="mhb", composition=Composition(**options))

    assert samples_of(freeze_composed("a", batches=(batches[0],))) == talks
    assert samples_of(freeze_composed("b", where={"source": "papers"})) == papers
    assert samples_of(freeze_composed("c", where={"task": "report"})) == papers
    release = freeze_composed("d", where={"source": "talks", "task": "dialogue", "language": "en"})
    assert samples_of(release) == talks
    assert release.excluded == {"other-source": 2}
    assert release.composition["where"] == {"source": "talks", "task": "dialogue", "language": "en"}
    with pytest.raises(errors.NothingApproved, match="other-language 5"):
        freeze_composed("e", where={"language": "zh"})


@pytest.mark.parametrize(
    "wrong", [{"where": {"shape": "round"}}, {"where": {"simulated": "perhaps"}}, {"held_out": 1.0}, {"held_out": -0.1}]
)
@pytest.mark.plain
def test_a_composition_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.WrongComposition):
        Composition(**wrong)


def test_simulated_and_real_samples_are_not_mixed_unless_asked(approved_samples: list[Sample]) -> None:
    User.objects.update(simulated=False)
    versions = SampleVersion.objects.filter(sample__in=approved_samples)
    versions.exclude(sample=approved_samples[0]).update(simulated=False)
    with pytest.raises(errors.MixedSimulated, match="no 4, yes 1"):
        services.preview("own", benchmark="mhb")
    with pytest.raises(errors.MixedSimulated):
        services.start_freeze("own", benchmark="mhb")

    def chosen(value: str) -> services.FreezePreview:
        return services.preview("own", benchmark="mhb", composition=Composition(where={"simulated": value}))

    assert [chosen(value).samples for value in ("yes", "no", "any")] == [1, 4, 5]
    assert chosen("yes").excluded == {"not-simulated": 4}
    assert chosen("no").excluded == {"simulated": 1}


def test_unreviewed_samples_are_released_only_on_request(approved_samples: list[Sample]) -> None:
    from review.models import Case

    Case.objects.filter(lineage=approved_samples[0].key).update(ground="unreviewed")
    assert services.preview("own", benchmark="mhb").excluded == {"unreviewed": 1}
    both = services.preview("own", benchmark="mhb", composition=Composition(with_unreviewed=True))
    assert (both.approved, both.not_sampled) == (4, 1)
    only = services.preview("own", benchmark="mhb", composition=Composition(where={"reviewed": "no"}))
    assert (only.samples, only.excluded) == (1, {"reviewed": 4})


def test_the_held_out_split_is_exported_separately(
    approved_samples: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = next(n for n in range(1, 100) if 0 < sum(held_out_flags(approved_samples, n)) < 5)
    composition = Composition(held_out=0.5, seed=seed)
    preview = services.preview("own", benchmark="mhb", composition=composition)
    release = services.freeze_release("own", benchmark="mhb", composition=composition)
    expected = {
        sample.key
        for sample, is_held_out in zip(approved_samples, held_out_flags(approved_samples, seed), strict=True)
        if is_held_out
    }
    held_out = set(release.samples.filter(split="held-out").values_list("key", flat=True))
    assert held_out == expected
    assert release.held_out_count == preview.held_out == len(expected)
    export.Export(release, "jsonl").write(tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    assert {row["sample_id"] for row in rows} == {sample.key for sample in approved_samples} - expected
    assert {(row["split"], row["canary"]) for row in rows} == {("public", release.canary)}
    size = f"{len(rows)} public of {len(approved_samples)} samples"
    card = (tmp_path / "out" / "DATACARD.md").read_text()
    assert size in card.partition("A release of the benchmark")[2].partition("\n")[0]
    assert size in bibtex(release)
    assert size in json.loads((tmp_path / "out" / "croissant.json").read_text())["description"]
    assert export.metadata(release)["samples"] == len(rows)
    monkeypatch.setattr(queries, "READ", 1)  # so that some chunks have no sample of a split
    for split in ReleasedSample.Split:
        keys = release.samples.filter(split=split).order_by("position").values_list("key", flat=True)
        assert [row["sample_id"] for row in exported_samples(release, split)] == list(keys)
        export.Export(release, "jsonl", split=split).write(tmp_path / split)
        rows = [json.loads(line) for line in (tmp_path / split / "samples.jsonl").read_text().splitlines()]
        assert [row["sample_id"] for row in rows] == list(keys)
    twin = services.freeze_release("twin", benchmark="mhb", composition=composition)
    assert set(twin.samples.filter(split="held-out").values_list("key", flat=True)) == expected
    assert twin.canary != release.canary


def test_the_seed_of_what_is_held_out_cannot_be_guessed_and_stays(
    approved_samples: list[Sample], settings: Any
) -> None:
    def seed_of(name: str, held_out: float, seed: int = 0) -> int:
        composition = Composition(held_out=held_out, seed=seed)
        return int(services.start_freeze(name, benchmark="mhb", composition=composition).composition["seed"])

    most = Composition(held_out=0.9)
    assert seed_of("open", held_out=0.0) == 0
    own = seed_of("own", held_out=0.9)
    assert 2**24 < own < 2**53, "JavaScript reads it exactly"
    settings.SECRET_KEY += "x"
    assert seed_of("elsewhere", held_out=0.9) != own
    release = services.freeze_release("chosen", benchmark="mhb", composition=Composition(held_out=0.9, seed=7))
    assert release.composition["seed"] == 7
    assert seed_of("chosen", held_out=0.5) == seed_of("next", held_out=0.9) == 7
    assert services.preview("chosen", benchmark="mhb", composition=most).held_out == release.held_out_count > 0


def test_readers_are_told_no_seed_where_only_chance_held_out_none(
    approved_samples: list[Sample], adela: User, rui: User
) -> None:
    """The release before or after may hold out by the same seed."""
    composition = Composition(held_out=0.0001, seed=7)
    release = services.freeze_release("own", benchmark="mhb", composition=composition)
    assert release.held_out_count == 0
    for user, told in ((adela, True), (rui, False)):
        client = Client()
        client.force_login(user)
        answer = client.get(f"/api/v1/releases/own/{release.version}/").json()
        assert ("seed" in answer["composition"]) == told


def held_out_flags(samples: list[Sample], seed: int) -> list[bool]:
    """Whether each sample is held out by a composition with this seed."""
    composition = Composition(held_out=0.5, seed=seed)
    return [composition.holds_out(sample.record.source.name, sample.record.external_id) for sample in samples]


def test_records_that_share_something_are_held_out_together(approved_samples: list[Sample]) -> None:
    """Also through others that were not approved, and whatever else is imported later."""
    records = [sample.record for sample in approved_samples]
    between = type(records[0]).objects.create(source=records[3].source, external_id="between", title="-", content={})
    shared = {records[0]: "image:a", between: "image:a document:b", records[4]: "document:b", records[1]: "image:c"}
    for record, things in shared.items():
        type(record).objects.filter(pk=record.pk).update(shares=things)
    seen = set()
    for seed in range(20):
        drawn = held_out_flags(approved_samples, seed)
        expected = {sample.pk: is_drawn for sample, is_drawn in zip(approved_samples, drawn, strict=True)}
        expected[approved_samples[4].pk] = drawn[0]
        found = {}
        for version, is_held_out in choices("mhb", Composition(held_out=0.5, seed=seed)):
            found[SampleVersion.objects.get(pk=version).sample_id] = is_held_out
        assert found == expected
        seen.add(drawn[0] == drawn[4])
    assert seen == {True, False}  # so that the draw by record alone would have failed


@pytest.mark.plain
def test_the_split_depends_only_on_seed_and_record() -> None:
    composition = Composition(held_out=0.2, seed=7)
    held = [n for n in range(2000) if composition.holds_out("own", str(n))]
    assert held == [n for n in range(2000) if Composition(held_out=0.2, seed=7).holds_out("own", str(n))]
    assert 320 < len(held) < 480
    assert held != [n for n in range(2000) if Composition(held_out=0.2, seed=8).holds_out("own", str(n))]
    assert set(held) <= {n for n in range(2000) if Composition(held_out=0.4, seed=7).holds_out("own", str(n))}


def test_the_command_composes_a_release(approved_samples: list[Sample], manage: Manage) -> None:
    options = ("own", "--benchmark", "mhb", "--where", "task=dialogue", "--held-out", "0.2", "--with-unreviewed")
    preview = manage.json("freeze_release", *options, "--preview")
    assert (preview["samples"], preview["counts"]["source"]) == (3, {"talks": 3})
    release = manage.json("freeze_release", *options)
    assert (release["samples"], release["excluded"]) == (3, {"other-task": 2})
    assert release["held_out"] == preview["held_out"]
    assert "cannot be used" in manage.refusal("freeze_release", "own", "--benchmark", "mhb", "--where", "shape=round")
    twice = ("--where", "source=one", "--where", "source=two")
    assert "takes one value" in manage.refusal("freeze_release", "own", "--benchmark", "mhb", *twice)
    batch = Source.objects.get(name="papers").records.get(external_id="1-1").samples.get().batch_id
    assert manage.json("freeze_release", "two", "--benchmark", "mhb", "--batch", batch)["samples"] == 2


def test_the_page_previews_the_chosen_composition(approved_samples: list[Sample], adela: User, client: Client) -> None:
    client.force_login(adela)
    form = {"name": "own", "benchmark": "mhb", "source": "papers", "held_out": "0.3", "seed": "3"}
    page = client.post(reverse("generation:release-new"), form)
    text = page.content.decode()
    assert page.status_code == 200
    assert "papers: 2" in text
    assert "from another source: 3" in text
    fields = {field.name: field.value() for field in page.context["fields"]}
    response = client.post(
        reverse("generation:release-new"),
        {name: value for name, value in fields.items() if value} | {"seen": page.context["preview"].seen},
    )
    assert response.status_code == 302
    freeze = Freeze.objects.get()
    assert Composition.from_json(freeze.composition) == Composition(where={"source": "papers"}, held_out=0.3, seed=3)
    services.run_freeze(freeze.pk)
    release_page = client.get(reverse("generation:release", args=["own", 1])).content.decode()
    assert "from another source: 3" in release_page
