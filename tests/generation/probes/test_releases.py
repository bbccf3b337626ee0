"""Probes of sources and releases: at the freeze, on pages, in API, commands and exports."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from bench import probe_worlds as worlds
from generation import errors
from generation.batches import launch, watching
from generation.batches import services as batches_services
from generation.jobs import life_cycle
from generation.models import Batch, ProbeWork, Release, ReleasedSample, Source, SourceRecord
from generation.outcomes import services as outcomes_services
from generation.probes import queries, services
from generation.releases import services as releases_services
from generation.releases.data_card import data_card
from generation.releases.export import Export
from generation.releases.freezing.composition import Composition
from generation.samples import errata

pytestmark = pytest.mark.django_db
PAIRS = 60


@pytest.fixture
def source() -> Source:
    """Published pairs whose wrong answers say `marker0` more often."""
    made = Source.objects.create(name="own", format="own", label="Own", licence="MIT", created_at=timezone.now())
    records = []
    for number, case in enumerate(worlds.leak_by_words(0, PAIRS, auc=0.95)):
        truth, wrong = case.labelled.answers
        content: dict[str, Any] = {"kind": "qa-pair", "question": case.labelled.question}
        content |= {"answer": truth, "hallucinated": wrong}
        content |= {"knowledge": [f"passage {number}"], "category": "MQ", "difficulty": "hard", "split": ""}
        records.append(
            SourceRecord(source=made, external_id=f"r{number}", title=f"Q{number}", language="en", content=content)
        )
    SourceRecord.objects.bulk_create(records)
    return made


def batch_of(source: Source) -> Batch:
    settings = launch.BatchSettings(benchmark="medhallu", source=source, preset="paper", roles={}, checks=())
    batch = launch.launch_batch(settings)
    batches_services.work_on_batch(batch.pk)
    outcomes_services.apply_outcomes()
    return batch


def freeze(**composition: Any) -> Release:
    chosen = Composition(with_unreviewed=True, **composition)
    return releases_services.freeze_release("own", benchmark="medhallu", composition=chosen)


def test_a_freeze_probes_by_itself_and_everybody_is_told(
    source: Source, admin_client: Client, client: Client, tmp_path: Path, manage: Any
) -> None:
    batch_of(source)
    release = freeze()
    report = queries.report(release)
    assert report is not None
    assert report.tells
    assert (report.cases, report.answers) == (PAIRS, 2 * PAIRS)
    assert not ProbeWork.objects.exists()  # it is stored with the release, which never changes

    page = admin_client.get(reverse("generation:release", args=["own", 1])).content.decode()
    assert "can be told apart without being read" in page
    probes_page = reverse("generation:release-probes", args=["own", 1])
    page = admin_client.get(f"{probes_page}?word=marker0").content.decode()
    assert "Cases with “marker0”" in page
    assert report.words[0].cases[0][0] in page

    Export(release, "jsonl").write(tmp_path)
    exported = json.loads((tmp_path / "probes.json").read_text())
    assert {probe["name"] for probe in exported["probes"]} >= {"constant", "length", "words"}
    assert "## Told without reading" in (tmp_path / "DATACARD.md").read_text()
    biases = json.loads((tmp_path / "croissant.json").read_text())["rai:dataBiases"]
    assert any("can be told apart without being read" in sentence for sentence in biases)

    code, shown, _errors = manage("probe_release", "own", "--json")
    assert (code, json.loads(shown)["tells"]) == (1, True)
    assert json.loads(shown)["probes"] == exported["probes"]
    code, again, _errors = manage("probe_release", "own", "--again", "--json")
    assert (code, json.loads(again)["probes"]) == (1, exported["probes"])
    errata.withdraw(release.samples.order_by("position")[0].version.sample_id, actor=None, reason="Wrong.")
    assert services.probed(release).cases == PAIRS - 1


def test_held_out_samples_are_named_to_those_who_may_see_them(source: Source, rui: Any, admin_client: Client) -> None:
    batch_of(source)
    freeze(held_out=0.4)
    hidden = set(ReleasedSample.objects.filter(split="held-out").values_list("key", flat=True))
    assert hidden
    address = reverse("generation:release-probes", args=["own", 1])
    researcher = Client()
    researcher.force_login(rui)
    for word in ("", "?word=marker0"):
        page = researcher.get(address + word).content.decode()
        assert not [key for key in hidden if key in page]
    assert [key for key in hidden if key in admin_client.get(address).content.decode()]


def test_a_source_is_probed_by_a_worker_and_by_command(
    source: Source,
    admin_client: Client,
    sent_tasks: list[tuple[Any, ...]],
    manage: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:
    address = reverse("generation:source-probes", args=["own"])
    assert "Not probed yet" in admin_client.get(address).content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        assert admin_client.post(address).status_code == 302
    work = ProbeWork.objects.get()
    assert ("run_probes", work.pk) in sent_tasks
    assert services.start(source).pk == work.pk  # one that is queued is not doubled
    services.run(work.pk)
    work.refresh_from_db()
    assert (work.status, work.tried) == ("done", work.total)
    assert "Words that tell" in admin_client.get(address).content.decode()
    code, shown, _errors = manage("probe_source", "own", "--json")
    assert (code, json.loads(shown)["tells"]) == (1, True)


def test_a_source_without_labels_has_a_sentence(source: Source, manage: Any) -> None:
    SourceRecord.objects.all().delete()
    SourceRecord.objects.create(source=source, external_id="1", title="T", language="en", content={"kind": "qa"})
    shown = manage.json("probe_source", "own")
    assert shown["why"] == "Nothing in it says which answers are right and which are wrong."
    assert (shown["probes"], shown["tells"]) == ([], None)


def test_a_killed_probing_starts_over(source: Source) -> None:
    work = services.start(source)
    ProbeWork.objects.filter(pk=work.pk).update(
        status="running", token="00000000-0000-0000-0000-000000000001", lease_until=timezone.now(), tries=1
    )
    assert services.sweep() == [work.pk]
    assert services.run(work.pk).status == "done"


def test_a_running_batch_is_probed_as_it_grows_and_stops_by_its_setting(source: Source, admin_client: Client) -> None:
    batch = batch_of(source)
    Batch.objects.filter(pk=batch.pk).update(status="running", settings={**batch.settings, "stop_when_told": 0.7})
    assert watching.watch() == []
    work = ProbeWork.objects.get()
    assert work.batch_id == batch.pk
    services.run(work.pk)
    assert watching.watch() == [batch.pk]
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == ("paused", "ToldWithoutReading")
    page = admin_client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert "more clearly than the batch allows" in page
    assert "can be told apart without being read" in page
    life_cycle.resume(batch.pk)
    assert watching.watch() == []  # the same result does not stop it again, and it has not grown
    assert ProbeWork.objects.count() == 1


def test_a_batch_without_the_setting_goes_on(source: Source) -> None:
    batch = batch_of(source)
    Batch.objects.filter(pk=batch.pk).update(status="running")
    watching.watch()
    services.run(ProbeWork.objects.get().pk)
    assert watching.watch() == []


def test_a_freeze_can_leave_out_what_is_easiest_to_tell_and_says_so(source: Source, tmp_path: Path) -> None:
    batch_of(source)
    whole = queries.report(freeze())
    release = freeze(harder=0.4, seed=3)
    report = queries.report(release)
    assert whole is not None
    assert report is not None
    assert (release.samples_count, release.excluded["easy-to-tell"]) == (36, 24)
    assert release.about["counts"]["source"] == {"own": 36}
    accuracies = [next(probe.accuracy for probe in each.probes if probe.name == "words") for each in (whole, report)]
    assert accuracies[0] is not None
    assert accuracies[1] is not None
    assert accuracies[1] < accuracies[0] - 0.1
    about = release.about["filter"]
    assert about["before"] == accuracies[0]
    assert about["facets"]["difficulty"] == {"hard": [60, 36]}
    Export(release, "jsonl").write(tmp_path)
    assert "24 samples (40% of the records) were left out" in (tmp_path / "DATACARD.md").read_text()
    assert "seeds 3 to" in data_card(release)
    release.composition["held_out"] = 0.2
    assert "seed" not in data_card(release), "records are held out by the same"
    kept = set(ReleasedSample.objects.filter(release=release).values_list("key", flat=True))
    again = releases_services.freeze_release(
        "other", benchmark="medhallu", composition=Composition(with_unreviewed=True, harder=0.4, seed=3)
    )
    assert set(ReleasedSample.objects.filter(release=again).values_list("key", flat=True)) == kept  # seeds are fixed


def test_what_cannot_be_told_cannot_be_filtered(source: Source) -> None:
    SourceRecord.objects.filter(external_id__in=[f"r{number}" for number in range(20, PAIRS)]).delete()
    batch_of(source)
    with pytest.raises(errors.WrongComposition, match="at least 30"):
        freeze(harder=0.4)
