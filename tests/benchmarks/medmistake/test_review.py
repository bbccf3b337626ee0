"""Two linked judgments: a mistake that is not valid ends the sample, a scenario that is not valid is sent back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.models import Draft, Release, Sample, SampleVersion
from generation.outcomes.attempts import Attempts
from generation.recipes.recipe import NewRubric, NewSample
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from generation.templatetags.composition_charts import attempts_chart
from mhb_site.benchmarks.medmistake import practice, review
from review.assignments import claims, services
from review.models import User
from review.rules import consolidation
from review.rules.case_spec import CaseSpec, spec_from_json, spec_to_json
from review.rules.questions import Answer, Answers, Problem, RubricAnswer, problems, without_unasked
from review.rules.wilson_interval import wilson
from tests.benchmarks.medmistake.published import file_of
from tests.benchmarks.medmistake.scenarios import CONVERSATION, GOOD, MISTAKE
from tests.engine import imported
from tests.review.approve import approval

NOTE = "Because the doctor asked about it."


def sample(**made: str) -> NewSample:
    return NewSample(
        task="single-shot",
        title=str(MISTAKE["title"]),
        language="en",
        content={
            "kind": "scenario", "scenario": GOOD["scenario"], "mistake": MISTAKE, "must": GOOD["must"], "doctor": "sim-doctor",
            "targets": ["sim-average"], "replicated": True, "conversation": CONVERSATION, "attempts": [],
        },
        rubrics=(NewRubric("mistake", GOOD["must"], ("medication-safety",)),),
        made={"review": "sampled", "reviewers": "one", "origin": "made here", **made},
    )  # fmt: skip


def spec(**made: str) -> CaseSpec:
    return review.case(sample(**made), "medmistake-1", 1)


def against(question: str, value: str) -> Answers:
    """A complete rejection by one answer."""
    questions = {"mistake": Answer("valid"), "scenario": Answer("valid"), question: Answer(value, NOTE)}
    if question == "mistake":
        del questions["scenario"]
    rubrics = {} if question == "mistake" else {"mistake": RubricAnswer("adequate", severity="high")}
    return Answers(questions=questions, rubrics=rubrics, verdict="reject", reason=NOTE)


def test_a_mistake_that_is_not_valid_leaves_nothing_more_to_answer() -> None:
    form = spec().form
    assert problems(form, against("mistake", "not-made")) == []
    assert problems(form, replace(against("mistake", "not-made"), verdict="approve")) == [
        Problem("verdict", "verdict-contradicts")
    ]
    missing = problems(form, Answers(questions={"mistake": Answer("valid")}, verdict="reject", reason=NOTE))
    assert [each.field for each in missing] == ["question.scenario", "rubric.mistake"]
    # What was chosen before the mistake was rejected does not count: a rubric found inadequate would have it written again.
    changed = replace(against("mistake", "not-made"), rubrics={"mistake": RubricAnswer("inadequate", note="No.")})
    assert problems(form, changed) == []
    assert without_unasked(form, changed).rubrics == {}
    assert problems(form, approval(form)) == []


def test_who_ends_a_sample_and_who_sends_it_back() -> None:
    form = spec().form
    ends, back = against("mistake", "disputed"), against("scenario", "gives-away")
    assert not consolidation.is_reducible(form, [ends])
    assert not consolidation.is_reducible(form, [ends, ends])
    assert consolidation.is_reducible(form, [back])
    assert consolidation.is_reducible(form, [ends, back]), "one physician found the mistake valid"
    published = spec(origin="published").form
    assert not consolidation.is_reducible(published, [back]), "what others published is not written again"


def test_the_mistake_is_shown_in_its_conversation_and_the_models_rating_is_not() -> None:
    shown = spec()
    assert spec_from_json(spec_to_json(shown)) == shown
    _mistake, conversation, scenario, must = shown.blocks
    assert [turn.mark for turn in getattr(conversation, "turns", ())] == ["", "", "", "Mistake"]
    assert (getattr(scenario, "text", ""), getattr(must, "text", "")) == (GOOD["scenario"], GOOD["must"])
    assert "high" not in str(shown.blocks)  # the model's rating of the risk
    assert [level.value for level in shown.form.severities] == ["low", "medium", "high", "critical"]


def test_the_practice_case_has_the_answers_that_it_expects() -> None:
    shown = practice.practice()
    given = replace(
        shown.expected,
        questions={**shown.expected.questions, "scenario": Answer("gives-away", NOTE)},
        rubrics={"mistake": RubricAnswer("adequate", severity="high")},
        reason=NOTE,
    )
    assert problems(shown.spec.form, given) == []


def test_of_299_reviewed_211_valid_are_70_6_percent_with_their_interval() -> None:
    """Known answer of the paper; the interval is Wilson's, as the page of attempts draws it."""
    (bar,) = attempts_chart([Attempts(("",), 299, 211, 299, 211, 211)]).marks
    assert (round(211 / 299, 3), [round(limit, 3) for limit in wilson(211, 299)]) == (0.706, [0.652, 0.754])
    assert (bar.text, bar.count) == ("70.6%", "211/299")
    assert "65.2" in bar.interval
    assert "75.4" in bar.interval


@pytest.fixture
def waiting(tmp_path: Path, db: None) -> list[SampleVersion]:
    """Two versions before physicians, as if made here, in a batch of published records."""
    source = imported(file_of(tmp_path / "all.json", 2), "published", "medmistake")
    batch = launch.launch_batch(
        BatchSettings(benchmark="medmistake", source=source, roles={}, changes={"review_share": 0.0}, checks=())
    )
    batches_services.work_on_batch(batch.pk)
    drafts = Draft.objects.filter(batch=batch).order_by("pk")
    batch.refresh_from_db()
    found = []
    for number, draft in enumerate(drafts):
        row = Draft.objects.create(
            batch=batch, record_id=draft.record_id, parent=draft, status=Draft.Status.DONE, step=draft.step
        )
        found.append(samples_services.make_version(row, batch, replace(sample(), title=f"Mistake {number}")))
    return found


def test_outcomes_of_both_judgments(waiting: list[SampleVersion], ana: User, client: Client) -> None:
    first, second = waiting
    answers = {first.case_id: against("mistake", "not-made"), second.case_id: against("scenario", "gives-away")}
    client.force_login(ana)
    for _case in answers:
        held = claims.claim_next(ana)
        assert held is not None
        assert held.token is not None
        page = client.get(reverse("review:case", args=[held.pk])).content.decode()
        assert 'data-when="question.mistake" data-is="valid"' in page
        assert "turn--marked" in page
        assert "Risk to the patient if a doctor makes this mistake" in page
        services.submit(ana, held.pk, held.token, answers[held.case_id])
    assert samples_services.apply_outcomes() >= 2
    for each in (first.sample, second.sample):
        each.refresh_from_db()
    assert (first.sample.status, second.sample.status) == (Sample.Status.DISCARDED, Sample.Status.REGENERATING)
    assert not Draft.objects.filter(sample=first.sample, version=2).exists()
    assert Draft.objects.filter(sample=second.sample, version=2).exists()


def test_the_risk_that_physicians_gave_is_released_beside_the_models(waiting: list[SampleVersion], ana: User) -> None:
    for _version in waiting:
        held = claims.claim_next(ana)
        assert held is not None
        assert held.token is not None
        services.submit(ana, held.pk, held.token, approval(held.case.frozen.form))
    samples_services.apply_outcomes()
    release: Release = releases_services.freeze_release("validated", benchmark="medmistake")
    facets: dict[str, Any] = release.samples.order_by("position")[0].exported["facets"]
    assert (facets["risk"], facets["severity"], facets["replicated"]) == (["high"], ["high"], ["yes"])
    assert release.samples_count == 2, "of four samples the two that physicians found valid"
