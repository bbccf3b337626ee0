"""MedMistake in the demo: from hand-written patients to a run."""

import pytest

from evaluation.models import Run
from generation.models import Draft, MergeEvent, Release, Sample
from mhb_site.demo import load, medmistake, steps
from review.assignments.case_queue import ChosenWork
from review.management.simulated_physicians import work_queue
from review.models import Assignment, User
from review.rules.state_machine import State
from tests.engine import endpoint, no_long_waits
from tests.site.test_demo_medhallu import models

__all__ = ["models", "no_long_waits"]


@pytest.mark.django_db
def test_loading_leaves_merges_open_reviews_and_a_finished_run(models: str, physicians: list[User]) -> None:
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)  # like the demo
    for model in load.MODELS:
        endpoint(models, model)
    messages: list[str] = []
    medmistake.load(load._import_source, tell=messages.append)
    states = list(Sample.objects.filter(benchmark="medmistake").values_list("status", flat=True))
    assert {Sample.Status.IN_REVIEW, Sample.Status.APPROVED} <= set(states)
    assert Draft.objects.filter(parent=None, sample=None).count() == medmistake.LIMIT * len(steps.TARGETS)
    assert MergeEvent.objects.exists()
    release = Release.objects.get(benchmark="medmistake")
    assert release.samples_count == states.count(Sample.Status.APPROVED) >= medmistake.APPROVED
    assert Run.objects.get(release=release).status == Run.Status.FINISHED
    # A visitor can take a case, also after physicians have reviewed another benchmark's.
    free = Assignment.objects.filter(hold=Assignment.Hold.OPEN, case__benchmark="medmistake", case__state=State.PRIMARY)
    left = set(free.values_list("pk", flat=True))
    assert len(left) == medmistake.CASES_LEFT
    work_queue(steps.SEED, None, steps.simulated_physicians(), chosen=ChosenWork("medhallu"))
    assert set(free.values_list("pk", flat=True)) == left
