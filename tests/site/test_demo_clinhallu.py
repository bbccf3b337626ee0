"""The demo's third benchmark: its drawn images, and its way from them to a run of models that see."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.models import Run
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Release, Sample, StoredImage
from mhb_site.benchmarks.clinhallu import simulate, simulate_answers
from mhb_site.demo import clinhallu, load, pictures
from review.models import User
from tests.engine import SEED, endpoint, no_long_waits

__all__ = ["no_long_waits"]


@pytest.fixture
def models(settings: Any, tmp_path: Path) -> Iterator[str]:
    settings.MHB_IMAGES = tmp_path / "images"
    known = dict(simulate_answers.LABELS)
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED)) as url:
        yield url
    simulate_answers.LABELS.clear()
    simulate_answers.LABELS.update(known)


@pytest.mark.django_db
def test_it_leaves_samples_released_and_in_review_and_a_finished_run(models: str, physicians: list[User]) -> None:
    User.objects.filter(pk__in=[one.pk for one in physicians]).update(simulated=True)
    for model in ("sim-generator", "sim-judge", *clinhallu.TARGETS):
        endpoint(models, model)
    told: list[str] = []
    clinhallu.load(load._import_source, tell=told.append)
    assert StoredImage.objects.count() == len(pictures.DRAWINGS)
    states = set(Sample.objects.filter(benchmark="clinhallu").values_list("status", flat=True))
    assert {"approved", "in-review"} <= states
    assert Release.objects.get().samples_count >= 5
    assert Run.objects.get().status == Run.Status.FINISHED
