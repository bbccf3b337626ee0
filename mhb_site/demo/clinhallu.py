"""The demo's ClinHallu: from drawn images to a run of multimodal models, small and quick."""

import json
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from generation.batches.launch import BatchSettings
from generation.models import Sample, Source
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.clinhallu.simulate import SCRIPT
from mhb_site.demo import pictures, steps

BENCHMARK = "clinhallu"
ROLES = {"generator": "sim-generator", "judge": "sim-judge"}
REVIEW_SHARE = 0.35  # of so few samples, a tenth would be only one or two
CASES_LEFT = 2  # in review, so that a first visitor can review one
MAX_REVIEWS = 30


def folder() -> Path:
    """The folder of the drawn data set; it is created if missing."""
    path = Path(settings.MHB_IMAGES).parent / "demo-pictures"
    if (path / pictures.LABELS).exists():
        return path
    return pictures.write_data_set(path)


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from images to a run, leaving some samples in review.

    `read` imports a file (name, format, path).
    """
    tell("ClinHallu: writing reference traces for questions about drawn images")
    for line in (folder() / pictures.LABELS).read_text(encoding="utf-8").splitlines():
        # For simulated models in this process; others get the labels at their start.
        SCRIPT.learn(json.loads(line))
    settings = BatchSettings(
        benchmark=BENCHMARK,
        source=read("demo-pictures", "vqa-rad", folder()),
        roles=steps.bind_roles(ROLES),
        preset="paper",
        changes={"review_share": REVIEW_SHARE},
    )
    batch = steps.make_samples(settings)
    steps.review_all_but(CASES_LEFT, BENCHMARK, max_reviews=MAX_REVIEWS)
    steps.apply_outcomes(batch)
    if not Sample.objects.filter(benchmark=BENCHMARK, status=Sample.Status.APPROVED).exists():
        tell("ClinHallu: no trace was kept: start simulate_llm with --labels for models that see")
        return
    tell("ClinHallu: asking three simulated models that see")
    steps.evaluate(BENCHMARK, judge="sim-judge", composition=Composition(with_unreviewed=True))
