"""MedHallu in the demo: its hand-written files, and the way from its questions to a run."""

import json
from collections.abc import Iterator
from itertools import cycle
from xml.etree import ElementTree

import pytest

from evaluation.models import Judgment, Run
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Release, Sample
from generation.models.work import Work
from generation.recipes import registry
from mhb_site.demo import load, medhallu, steps
from review.models import User
from tests.engine import SEED, endpoint, no_long_waits

__all__ = ["no_long_waits"]


@pytest.fixture
def models() -> Iterator[str]:
    """Serve the simulated models of all benchmarks together, as the demo does."""
    with run_in_background(
        make_app([registry.module(name, "simulate").SCRIPT for name in registry.names()], seed=SEED)
    ) as url:
        yield url


@pytest.fixture
def other_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes end early for other jobs, again and again, as on a busy machine."""
    looks = cycle([True, False, False, False])
    monkeypatch.setattr("generation.engine.worker_lane.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("generation.jobs.lanes.ends_early", lambda _lane: next(looks))


@pytest.mark.plain
def test_every_study_says_that_it_is_invented_and_its_headings_are_known() -> None:
    questions = json.loads((medhallu.HERE / "questions.json").read_text(encoding="utf-8"))
    root = ElementTree.parse(medhallu.HERE / "headings.xml").getroot()
    headings = {heading.findtext("DescriptorName/String") for heading in root}
    assert 12 <= len(questions) <= 20
    for question in questions.values():
        assert question["CONTEXTS"][0].startswith("This study is invented. ")
        assert len(question["CONTEXTS"]) == len(question["LABELS"])
        assert question["final_decision"] in ("yes", "no", "maybe")
        assert set(question["MESHES"]) <= headings


@pytest.mark.django_db
@pytest.mark.usefixtures("other_jobs_wait")
def test_loading_leaves_released_samples_open_reviews_and_a_finished_run(models: str, physicians: list[User]) -> None:
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)  # like the demo
    for model in load.MODELS:
        endpoint(models, model)
    messages: list[str] = []
    medhallu.load(load._import_source, tell=messages.append)
    states = list(Sample.objects.filter(benchmark="medhallu").values_list("status", flat=True))
    assert {Sample.Status.IN_REVIEW, Sample.Status.APPROVED} <= set(states)
    release = Release.objects.get(benchmark="medhallu")
    assert release.samples_count == states.count(Sample.Status.APPROVED)
    assert set(release.counts) >= {"difficulty", "category", "branch"}
    assert release.reviewed > 0
    assert release.unreviewed > 0
    run = Run.objects.get(release=release)
    judgments = Judgment.objects.filter(run=run)
    assert run.status == Run.Status.FINISHED
    assert judgments.count() == release.samples_count * 4 * len(steps.TARGETS)
    assert not judgments.exclude(status=Work.Status.DONE).exists()
    assert len(messages) == 2
