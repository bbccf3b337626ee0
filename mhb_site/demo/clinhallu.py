"""The demo's ClinHallu: from drawn images to a run of multimodal models, small and quick."""

import json
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.models import Endpoint, Sample, Source
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from generation.samples import services as samples_services
from mhb_site.benchmarks.clinhallu.simulate import SCRIPT
from mhb_site.demo import pictures
from review.cases.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.permissions import UserRole
from review.rules.state_machine import State

BENCHMARK = "clinhallu"
ROLES = {"generator": "sim-generator", "judge": "sim-judge"}
TARGETS = ("sim-careful", "sim-average", "sim-reckless")
SEED = 7
REVIEW_SHARE = 0.35  # of so few samples, a tenth would be only one or two
CASES_LEFT = 2  # in review, so that a first visitor can review one
MAX_REVIEWS = 30


def folder() -> Path:
    """The folder of the drawn data set; it is created if missing."""
    path = Path(settings.MHB_IMAGES).parent / "demo-pictures"
    return path if (path / pictures.LABELS).exists() else pictures.write_data_set(path)


def load(read: Callable[[str, str, Path], Source], *, tell: Callable[[str], None]) -> None:
    """Load everything from images to a run, leaving some samples in review.

    `read` imports a file (name, format, path).
    """
    tell("ClinHallu: writing reference traces for questions about drawn images")
    for line in (folder() / pictures.LABELS).read_text(encoding="utf-8").splitlines():
        # For simulated models in this process; others get the labels at their start.
        SCRIPT.learn(json.loads(line))
    batch = launch.launch_batch(
        BatchSettings(
            benchmark=BENCHMARK,
            source=read("demo-pictures", "vqa-rad", folder()),
            roles={role: Endpoint.objects.get(name=name) for role, name in ROLES.items()},
            preset="paper",
            changes={"review_share": REVIEW_SHARE},
        )
    )
    batches_services.work_on_batch(batch.pk)
    physicians = list(User.objects.filter(role=UserRole.PHYSICIAN, simulated=True).order_by("username"))
    cases = Case.objects.filter(benchmark=BENCHMARK)
    for number in range(MAX_REVIEWS):
        approved = cases.filter(state=State.APPROVED, reviews__isnull=False).exists()
        if approved and cases.filter(state=State.PRIMARY).count() <= CASES_LEFT:
            break
        work_queue(SEED + number, 1, physicians)
    samples_services.apply_outcomes()
    batches_services.work_on_batch(batch.pk)  # makes version 2 of rejected samples
    if not Sample.objects.filter(benchmark=BENCHMARK, status=Sample.Status.APPROVED).exists():
        tell("ClinHallu: no trace was kept: start simulate_llm with --labels for models that see")
        return
    tell("ClinHallu: asking three simulated models that see")
    release = releases_services.freeze_release(
        "clinhallu-demo", benchmark=BENCHMARK, composition=Composition(with_unreviewed=True)
    )
    targets = [Endpoint.objects.get(name=name) for name in TARGETS]
    run = runs_services.launch_run(RunSettings(release, targets, Endpoint.objects.get(name="sim-judge")))
    work.work_on_run(run.pk)
