"""The whole workflow on real images: every row of VQA-RAD as published, from file to report."""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import Judgment, Response
from evaluation.reports import formats, queries
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.errors import FormatDoesNotFit, WrongStages
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Call, Draft, SampleVersion, SentImage, SourceRecord, StoredImage
from generation.models.work import Work
from generation.outcomes import services as outcomes_services
from generation.releases import export
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.clinhallu import simulate, simulate_answers
from review.models import Case, User
from tests.engine import SEED, TARGETS, endpoint, import_file, no_long_waits
from tests.profile import by_profile, public
from tests.review.approve import approve_everything

__all__ = ["no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
ROWS, IMAGES, TWINS = 124, 30, 8
RECORDS = by_profile(50, ROWS)  # records of the batch; the thorough tests take all
MEASURED = by_profile(("sim-careful", "sim-reckless"), TARGETS)


@pytest.fixture
def url(settings: Any, tmp_path: Path) -> Iterator[str]:
    settings.MHB_IMAGES = tmp_path / "images"
    known = dict(simulate_answers.LABELS)
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED)) as address:
        yield address
    simulate_answers.LABELS.clear()
    simulate_answers.LABELS.update(known)


def test_every_row_of_vqa_rad_from_file_to_report(
    url: str, physicians: list[User], tmp_path: Path, client: Client, adela: User
) -> None:
    source = import_file(public("vqa_rad"), "rad", "vqa-rad")
    assert SourceRecord.objects.filter(source=source).count() == ROWS
    assert StoredImage.objects.count() == IMAGES
    for content in SourceRecord.objects.values_list("content", flat=True):
        simulate.SCRIPT.learn(content)

    roles = {"generator": endpoint(url, "sim-generator"), "judge": endpoint(url, "sim-judge")}
    settings = BatchSettings(benchmark="clinhallu", source=source, roles=roles, limit=RECORDS, draw="random", seed=SEED)
    batch = launch.launch_batch(settings)
    batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == batch.Status.FINISHED
    statuses = Counter(
        candidate["status"]
        for data in Draft.objects.filter(batch=batch).values_list("data", flat=True)
        for candidate in data["candidates"]
    )
    assert statuses.total() == RECORDS
    versions = SampleVersion.objects.filter(sample__batch=batch)
    twins = Draft.objects.filter(batch=batch, gate=Draft.Gate.STOPPED).count()
    assert versions.count() == statuses["kept"] - twins
    assert by_profile(0, 1) <= twins <= TWINS, "the file contains a few questions twice"
    n_samples = versions.count()
    assert 0.6 * RECORDS < statuses["kept"] < RECORDS
    analysis_rows = {row[0]: row[1] for row in batches_queries.analysis(batch)[0].rows}  # type: ignore[union-attr]
    assert analysis_rows["kept"] == str(statuses["kept"] - twins), "drafts that a check stopped are not counted"
    assert analysis_rows["rejected: invalid trace"] == str(statuses["invalid"])
    assert not SentImage.objects.exists(), "images are named in the ledger, not copied into it"
    assert not any("base64" in json.dumps(call.sent) for call in Call.objects.all())

    strata = Counter((version.content["dataset"], version.content["question_type"]) for version in versions)
    sampled = Counter(
        (version.content["dataset"], version.content["question_type"])
        for version in versions
        if version.provenance["review"] == "sampled"
    )
    for stratum, size in strata.items():
        assert abs(sampled[stratum] - 0.1 * size) < 1, "a tenth of each stratum"
    assert Case.objects.filter(state="primary").count() == sampled.total()
    assert approve_everything(physicians) >= 2 * sampled.total(), "two physicians per case"
    outcomes_services.apply_outcomes()

    release = releases_services.freeze_release(
        "rad", benchmark="clinhallu", composition=Composition(with_unreviewed=True)
    )
    assert release.samples_count == n_samples
    assert release.grounds["unreviewed"] == n_samples - sampled.total()
    targets = [endpoint(url, target) for target in MEASURED]
    run = runs_services.launch_run(RunSettings(release=release, endpoints=targets, judge=roles["judge"]))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    # If the free trace has no visual recognition, there is nothing to continue from.
    unasked = Response.objects.filter(run=run).exclude(status=Work.Status.DONE)
    assert {(response.variant, response.endpoint.name) for response in unasked} <= {("rep-k", "sim-reckless")}
    assert unasked.count() < 0.2 * n_samples
    assert not Judgment.objects.filter(run=run).exclude(response__in=unasked).exclude(status=Work.Status.DONE).exists()
    report = formats.as_dict(queries.report(run))
    assert report["finished"]
    free = {row["endpoint"]: row for row in report["overall"] if row["dataset"] == "vqa-rad-free"}
    assert free["sim-careful"]["rate"] > free["sim-reckless"]["rate"], "the careful model sees better"

    folder = tmp_path / "export"
    export.Export(release, "jsonl").write(folder)
    names = {path.name for path in (folder / "images").iterdir()}
    with (folder / "samples.jsonl").open(encoding="utf-8") as lines:
        referenced = {name for line in lines for name in json.loads(line)["content"]["image_files"]}
    assert {f"images/{name}" for name in names} == referenced

    for format_name in ("inspect", "lm-eval", "healthbench"):
        with pytest.raises(FormatDoesNotFit, match="one question each"):
            export.Export(release, format_name).write(tmp_path / format_name)
    with pytest.raises(WrongStages, match=r"known: answer, V, K, V\+K, V\+K\+R"):
        export.Export(release, "supervision", stages="R").write(tmp_path / "no")
    client.force_login(adela)
    page = client.get(reverse("generation:release", args=["rad", 1])).content.decode()
    assert page.count('<select name="stages">') == 1
    for address in (
        reverse("generation:release-export", args=["rad", 1, "supervision"]),
        reverse("api:release-export", args=["rad", 1]),
    ):
        response = client.get(address, {"format": "supervision", "stages": "V+K"})
        assert "rad-v1-supervision-V+K.zip" in response.headers["Content-Disposition"]
        archive = zipfile.ZipFile(io.BytesIO(b"".join(response.streaming_content)))  # type: ignore[attr-defined]
        [first, *_more] = archive.read("rad-v1/train.jsonl").decode().splitlines()
        assert "[Knowledge Recall]" in first
        assert "[Reasoning]" not in first
        assert client.get(address, {"format": "supervision", "stages": "R"}).status_code == 422
    training_folder = tmp_path / "training"
    export.Export(release, "supervision", stages="V+K").write(training_folder)
    chats = [json.loads(line) for line in (training_folder / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(chats) == versions.filter(content__split="train").count()
    assert not (training_folder / "validation.jsonl").read_text()
    for chat in chats:
        [question, answer] = chat["messages"]
        assert question["content"].startswith("<image>")
        assert "[Visual Recognition]" in answer["content"]
        assert "[Reasoning]" not in answer["content"]
        assert all((training_folder / name).is_file() for name in chat["images"])
    test_questions = set(versions.filter(content__split="test").values_list("content__question", flat=True))
    assert test_questions, "the test set is in the release but in no training file"
    assert {path.name for path in (training_folder / "images").iterdir()} == {
        name.removeprefix("images/") for chat in chats for name in chat["images"]
    }
