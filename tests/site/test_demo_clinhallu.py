"""ClinHallu in the demo: from drawn images to a run of models with vision."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.models import Run
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Release, Sample, StoredImage
from mhb_site.benchmarks.clinhallu import simulate, simulate_answers
from mhb_site.demo import clinhallu, load, pictures, steps
from review.models import User
from tests.engine import SEED, endpoint, no_long_waits

__all__ = ["no_long_waits"]


@pytest.fixture
def models(settings: Any, tmp_path: Path) -> Iterator[str]:
    settings.MHB_IMAGES = tmp_path / "images"
    labels = dict(simulate_answers.LABELS)
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED)) as url:
        yield url
    simulate_answers.LABELS.clear()
    simulate_answers.LABELS.update(labels)


@pytest.mark.django_db
def test_loading_leaves_released_samples_open_reviews_and_a_finished_run(models: str, physicians: list[User]) -> None:
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)
    for model in ("sim-generator", "sim-judge", *steps.TARGETS):
        endpoint(models, model)
    messages: list[str] = []
    clinhallu.load(load._import_source, tell=messages.append)
    assert StoredImage.objects.count() == len(pictures.DRAWINGS)
    states = set(Sample.objects.filter(benchmark="clinhallu").values_list("status", flat=True))
    assert {"approved", "in-review"} <= states
    assert Release.objects.get().samples_count >= 5
    assert Run.objects.get().status == Run.Status.FINISHED
