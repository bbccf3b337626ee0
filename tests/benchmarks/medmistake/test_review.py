"""Two linked judgments: an invalid mistake discards the sample, an invalid scenario is sent
back."""

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
from generation.outcomes import services as outcomes_services
from generation.outcomes.attempts import Attempts
from generation.recipes.recipe import NewRubric, NewSample
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from generation.templatetags.composition_charts import attempts_chart
from mhb_site.benchmarks.medmistake import review
from review.assignments import claims, services
from review.calibration import practice
from review.models import User
from review.rules import consolidation
from review.rules.case_spec import CaseSpec, spec_from_json, spec_to_json
from review.rules.questions import Answer, Answers, Problem, RubricAnswer, problems, without_unasked
from review.rules.wilson_interval import wilson
from review.turns.turn import turn_of
from tests.benchmarks.medmistake.published import write_published_file
from tests.benchmarks.medmistake.scenarios import CONVERSATION, GOOD, MISTAKE
from tests.engine import import_file
from tests.review.approve import approval_of

NOTE = "Because the doctor asked about it."


def sample(**provenance: str) -> NewSample:
    return NewSample(
        task="single-shot",
        title=str(MISTAKE["title"]),
        language="en",
        content={
            "kind": "scenario", "scenario": GOOD["scenario"], "mistake": MISTAKE, "must": GOOD["must"], "doctor": "sim-doctor",
            "targets": ["sim-average"], "replicated": True, "conversation": CONVERSATION, "attempts": [],
        },
        rubrics=(NewRubric("mistake", GOOD["must"], ("medication-safety",)),),
        provenance={"review": "sampled", "reviewers": "one", "origin": "made here", **provenance},
    )  # fmt: skip


def spec(**provenance: str) -> CaseSpec:
    return review.case(sample(**provenance), "medmistake-1", 1)


def rejection_of(question: str, value: str) -> Answers:
    """Return complete answers that reject the sample because of this answer to this question."""
    questions = {"mistake": Answer("valid"), "scenario": Answer("valid"), question: Answer(value, NOTE)}
    if question == "mistake":
        del questions["scenario"]
    rubrics = {} if question == "mistake" else {"mistake": RubricAnswer("adequate", severity="high")}
    return Answers(questions=questions, rubrics=rubrics, verdict="reject", reason=NOTE)


def test_nothing_more_is_asked_about_an_invalid_mistake() -> None:
    form = spec().form
    assert problems(form, rejection_of("mistake", "not-made")) == []
    assert problems(form, replace(rejection_of("mistake", "not-made"), verdict="approve")) == [
        Problem("verdict", "verdict-contradicts")
    ]
    missing = problems(form, Answers(questions={"mistake": Answer("valid")}, verdict="reject", reason=NOTE))
    assert [problem.field for problem in missing] == ["question.scenario", "rubric.mistake"]
    # Answers given before the mistake was rejected do not count: otherwise an inadequate rubric
    # would send the scenario back.
    changed = replace(rejection_of("mistake", "not-made"), rubrics={"mistake": RubricAnswer("inadequate", note="No.")})
    assert problems(form, changed) == []
    assert without_unasked(form, changed).rubrics == {}
    assert problems(form, approval_of(form)) == []


def test_an_invalid_mistake_discards_a_sample_and_an_invalid_scenario_sends_it_back() -> None:
    form = spec().form
    invalid_mistake, invalid_scenario = rejection_of("mistake", "disputed"), rejection_of("scenario", "gives-away")
    assert not consolidation.is_reducible(form, [invalid_mistake])
    assert not consolidation.is_reducible(form, [invalid_mistake, invalid_mistake])
    assert consolidation.is_reducible(form, [invalid_scenario])
    assert consolidation.is_reducible(form, [invalid_mistake, invalid_scenario]), (
        "one physician found the mistake valid"
    )
    published_form = spec(origin="published").form
    assert not consolidation.is_reducible(published_form, [invalid_scenario]), (
        "a published scenario cannot be rewritten"
    )


def test_the_case_marks_the_mistake_in_the_conversation_and_hides_the_models_risk_rating() -> None:
    case = spec()
    assert spec_from_json(spec_to_json(case)) == case
    _mistake, conversation, scenario, must = case.blocks
    assert [turn.mark for turn in getattr(conversation, "turns", ())] == ["", "", "", "Mistake"]
    assert (getattr(scenario, "text", ""), getattr(must, "text", "")) == (GOOD["scenario"], GOOD["must"])
    assert "high" not in str(case.blocks)  # the model's rating of the risk
    assert [level.value for level in case.form.severities] == ["low", "medium", "high", "critical"]


def test_the_expected_answers_of_the_practice_case_are_valid() -> None:
    practice_case = practice.practice("medmistake")
    assert practice_case is not None
    answers = replace(
        practice_case.expected,
        questions={**practice_case.expected.questions, "scenario": Answer("gives-away", NOTE)},
        rubrics={"mistake": RubricAnswer("adequate", severity="high")},
        reason=NOTE,
    )
    assert problems(practice_case.spec.form, answers) == []


def test_the_chart_shows_211_valid_of_299_as_70_6_percent_with_an_interval() -> None:
    """The share is published in the paper; the interval is Wilson's, as in the chart of
    attempts."""
    (bar,) = attempts_chart([Attempts({}, 299, 211, 299, 211, 211)]).marks
    assert (round(211 / 299, 3), [round(limit, 3) for limit in wilson(211, 299)]) == (0.706, [0.652, 0.754])
    assert (bar.text, bar.count) == ("70.6%", "211/299")
    assert "65.2" in bar.interval
    assert "75.4" in bar.interval


@pytest.fixture
def versions_in_review(tmp_path: Path, db: None) -> list[SampleVersion]:
    """Two versions in review, as if generated, in a batch of published records."""
    source = import_file(write_published_file(tmp_path / "all.json", 2), "published", "medmistake")
    batch = launch.launch_batch(
        BatchSettings(benchmark="medmistake", source=source, roles={}, changes={"review_share": 0.0}, checks=())
    )
    batches_services.work_on_batch(batch.pk)
    drafts = Draft.objects.filter(batch=batch).order_by("pk")
    batch.refresh_from_db()
    versions = []
    for number, draft in enumerate(drafts):
        row = Draft.objects.create(
            batch=batch, record_id=draft.record_id, parent=draft, status=Draft.Status.DONE, step=draft.step
        )
        versions.append(samples_services.make_version(row, batch, replace(sample(), title=f"Mistake {number}")))
    return versions


def test_an_invalid_mistake_discards_its_sample_and_an_invalid_scenario_is_regenerated(
    versions_in_review: list[SampleVersion], ana: User, client: Client
) -> None:
    first, second = versions_in_review
    answers = {
        first.case_id: rejection_of("mistake", "not-made"),
        second.case_id: rejection_of("scenario", "gives-away"),
    }
    client.force_login(ana)
    for _case in answers:
        assignment = claims.claim_next(ana)
        assert assignment is not None
        assert assignment.token is not None
        page = client.get(reverse("review:case", args=[assignment.pk])).content.decode()
        assert 'data-when="question.mistake" data-is="valid"' in page
        assert "turn--marked" in page
        assert "Risk to the patient if a doctor makes this mistake" in page
        services.submit(turn_of(ana, assignment.pk), assignment.token, answers[assignment.case_id])
    assert outcomes_services.apply_outcomes() >= 2
    for row in (first.sample, second.sample):
        row.refresh_from_db()
    assert (first.sample.status, second.sample.status) == (Sample.Status.DISCARDED, Sample.Status.REGENERATING)
    assert not Draft.objects.filter(sample=first.sample, version=2).exists()
    assert Draft.objects.filter(sample=second.sample, version=2).exists()


def test_the_release_contains_the_physicians_risk_rating_beside_the_models(
    versions_in_review: list[SampleVersion], ana: User
) -> None:
    for _version in versions_in_review:
        assignment = claims.claim_next(ana)
        assert assignment is not None
        assert assignment.token is not None
        services.submit(turn_of(ana, assignment.pk), assignment.token, approval_of(assignment.case.frozen.form))
    outcomes_services.apply_outcomes()
    release: Release = releases_services.freeze_release("validated", benchmark="medmistake")
    facets: dict[str, Any] = release.samples.order_by("position")[0].exported["facets"]
    assert (facets["risk"], facets["severity"], facets["replicated"]) == (["high"], ["high"], ["yes"])
    assert release.samples_count == 2, "the two of four samples that physicians found valid"
