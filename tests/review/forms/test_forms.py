"""Versions of review forms: what can be published, what a case gets, who sees a question when."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import translation

from review import errors
from review.access import visibility
from review.answers.answer_form import fill_form
from review.answers.side_by_side import compare, named_columns
from review.assignments import first_look, services
from review.cases import services as cases_services
from review.forms import check, queries
from review.forms import services as forms_services
from review.forms.design import (
    Design,
    apply_design,
    case_questions,
    design_from_json,
    design_to_json,
    is_sampled,
    unknown_names,
)
from review.models import Case, PersonEvent, ReviewForm, User
from review.quality.reliability import agreement_table
from review.rules.case_spec import CaseSpec
from review.rules.questions import Answer, Answers, Choice, Problem, Question, RubricAnswer, problems
from review.rules.state_machine import Role, State
from review.turns.turn import ReviewTurn
from tests.review.factories import CITATION, claim, turn_at

pytestmark = pytest.mark.django_db

YES_NO = (Choice("yes", "Yes"), Choice("no", "No"))
SURE = Question("sure", "How sure are you?", "", (Choice("1", "Not"), Choice("2", "Very")), compared=False)
WHY = Question("why", "Why?", "", (), kind="text", when="sure=1")
EACH = Question("clear", "Is it clear?", "", YES_NO, per="rubric")
WORDS = {"zh-hans": {"sure.label": "您有多大把握？", "sure.choice.2": "很有把握"}}


@pytest.fixture
def default() -> Design:
    return queries.default_design("mhb")


@pytest.fixture
def sample() -> CaseSpec:
    case = queries.sample_case("mhb")
    assert case is not None
    return case


def extend(default: Design, *questions: Question, **changes: Any) -> Design:
    """The design with further questions; `changes` replace other fields of it."""
    return replace(default, questions=(*default.questions, *questions), **changes)


def open_sample(sample: CaseSpec, number: int = 1, **changes: Any) -> Case:
    """Open a case for the sample, under a lineage of its own."""
    return cases_services.open_case(replace(sample, lineage=f"mhb-{number:06}", version=1, **changes))


def complete(spec: CaseSpec, **questions: Answer) -> Answers:
    """Complete answers in favour of a case; `questions` replace or add some."""
    defaults = {
        question.key: Answer(next(choice.value for choice in question.choices if not choice.blocks))
        for question in spec.form.questions
        if question.kind == "choice"
    }
    return Answers(
        defaults | questions,
        {rubric.key: RubricAnswer("adequate", severity="mild") for rubric in spec.form.rubrics},
        verdict="approve",
        citations=tuple(replace(CITATION, trap=term.code) for term in spec.form.terms),
    )


def answer(user: User, **questions: Answer) -> Case:
    """Claim the next case, take its first look, and submit complete answers with `questions`."""
    assignment = claim(user)
    spec = assignment.case.frozen
    spec = replace(spec, form=spec.form.at(Role(assignment.role).stage))
    assert assignment.token is not None
    answers = complete(spec, **questions)
    first_look.reveal(turn_at(user, assignment), assignment.token, answers)
    return services.submit(turn_at(user, assignment), assignment.token, answers).case


# --------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize("benchmark", ["mhb", "medhallu"])
def test_the_built_in_form_can_be_published_unchanged(benchmark: str, adela: User) -> None:
    design = queries.default_design(benchmark)
    assert forms_services.faults(benchmark, design) == []
    assert design_from_json(design_to_json(design)) == design
    assert set(queries.locked(benchmark)) <= {question.key for question in design.questions}


def change_question(key: str, **changes: Any) -> Any:
    """A function that replaces fields of one question of a design."""

    def change(design: Design) -> Design:
        return replace(design, questions=tuple(replace(q, **changes) if q.key == key else q for q in design.questions))

    return change


def add_question(**changes: Any) -> Any:
    """A function that adds the question SURE, with `changes`, to a design."""
    return lambda design: extend(design, replace(SURE, **changes))


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (lambda d: replace(d, questions=()), "form", "Add at least one question"),
        (lambda d: replace(d, questions=d.questions[1:]), "form", "“naturalness” cannot be removed"),
        (add_question(key="Sure?"), "question.6.key", "short key"),
        (add_question(key="noticed"), "question.6.key", "unique"),
        (add_question(label=" "), "question.6.label", "name"),
        (add_question(help="x" * 5000), "question.6.help", "at most"),
        (add_question(kind="mood"), "question.6.kind", "types"),
        (add_question(kind="text"), "question.6.kind", "no choices"),
        (add_question(per="world"), "question.6.per", "asked about"),
        (add_question(about="R1"), "question.6.per", "Leave it out"),
        (add_question(stages=("approved",)), "question.6.stages", "stages"),
        (add_question(choices=YES_NO[:1]), "question.6.choices", "from 2"),
        (add_question(choices=tuple(replace(c, blocks=True) for c in YES_NO)), "question.6.choices", "rules out"),
        (add_question(choices=(YES_NO[0], YES_NO[0])), "question.6.choice.1.value", "has this value"),
        (add_question(choices=(YES_NO[0], Choice("a b", "B"))), "question.6.choice.2.value", "short value"),
        (add_question(choices=(YES_NO[0], Choice("no", ""))), "question.6.choice.2.label", "wording"),
        (
            add_question(choices=(YES_NO[0], replace(YES_NO[1], evidence_kinds=("rumour",), evidence=True))),
            "question.6.choice.2.evidence",
            "kinds of sources",
        ),
        (add_question(when="later=yes"), "question.6.when", "earlier question"),
        (add_question(when="noticed=perhaps"), "question.6.when", "not a choice"),
        (add_question(when="factual=met", first_look=True), "question.6.when", "another first-look question"),
        (add_question(first_look=True, per="trap"), "question.6.first_look", "before the traps"),
        (add_question(first_look=True, label="Did you see the trap?"), "question.6.first_look", "mentions traps"),
        (change_question("alignment", first_look=True), "question.5.first_look", "before the traps"),
        (change_question("factual", per="case"), "question.3.per", "Only the wording"),
        (change_question("coherence", required=False), "question.4.required", "Only the wording"),
        (change_question("factual", choices=YES_NO), "question.3.choices", "cannot change"),
        (lambda d: replace(d, share=101), "share", "from 0 to 100"),
        (lambda d: replace(d, objection_hours=1441), "objection_hours", "from 0 to 1440"),
        (lambda d: replace(d, policy={"adjudicators": True}), "policy.adjudicators", "no such setting"),
        (lambda d: replace(d, wordings={"fr": {}}), "form", "not available in"),
    ],
)
def test_every_fault_is_reported_with_its_field(change: Any, field: str, message: str, default: Design) -> None:
    faults = forms_services.faults("mhb", change(default))
    assert any(fault.field == field and message in fault.sentence for fault in faults), faults


def test_a_first_look_that_mentions_traps_in_chinese_is_refused(default: Design) -> None:
    question = replace(SURE, first_look=True)
    design = extend(default, question, wordings={**default.wordings})
    assert forms_services.faults("mhb", design) == []
    words = {"zh-hans": {**default.wordings["zh-hans"], "sure.help": "您注意到陷阱了吗？"}}
    assert [fault.field for fault in forms_services.faults("mhb", replace(design, wordings=words))] == [
        "question.6.first_look"
    ]


def test_a_benchmark_without_a_first_look_text_cannot_enable_it() -> None:
    design = replace(queries.default_design("medhallu"), policy={"reveal_first_look": True})
    assert [fault.field for fault in forms_services.faults("medhallu", design)] == ["policy.reveal_first_look"]


def test_misspelt_names_are_detected() -> None:
    data = {"questions": [{"key": "a", "label": "", "help": "", "choices": [], "requird": 1}], "polcy": {}}
    unknown = unknown_names(data, design_to_json(design_from_json(data)))
    assert sorted(unknown) == ["polcy", "questions.1.requird"]


# ------------------------------------------------------------------------------- versions and cases


def test_only_admins_publish_and_the_trail_records_it(default: Design, adela: User, ana: User, rui: User) -> None:
    for other in (ana, rui):
        with pytest.raises(errors.NotAllowed):
            forms_services.publish(other, benchmark="mhb", design=default)
    row = forms_services.publish(adela, benchmark="mhb", design=default, note="First")
    assert forms_services.publish(adela, benchmark="mhb", design=default) == row, (
        "an unchanged form gets no new version"
    )
    with pytest.raises(errors.StaleForm):
        forms_services.publish(adela, benchmark="mhb", design=extend(default, SURE), base=0)
    with pytest.raises(errors.FormFaulty):
        forms_services.publish(adela, benchmark="mhb", design=replace(default, questions=()))
    with pytest.raises(errors.UnknownForm):
        forms_services.publish(adela, benchmark="invented", design=default)
    event = PersonEvent.objects.get(kind="form")
    assert (event.actor, event.data["benchmark"], event.data["version"]) == (adela, "mhb", 1)


@pytest.mark.both
def test_a_version_cannot_be_changed_deleted_or_duplicated(default: Design, adela: User) -> None:
    row = forms_services.publish(adela, benchmark="mhb", design=default)
    for change in (
        lambda: ReviewForm.objects.filter(pk=row.pk).update(note="Other"),
        lambda: ReviewForm.objects.filter(pk=row.pk).delete(),
        lambda: ReviewForm.objects.create(benchmark="mhb", version=1, author=adela, at=row.at),
        lambda: ReviewForm.objects.create(benchmark="mhb", version=0, author=adela, at=row.at),
        lambda: ReviewForm.objects.create(benchmark="", version=1, author=adela, at=row.at),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            change()


def test_open_cases_keep_their_form_and_new_cases_get_the_latest_version(
    default: Design, sample: CaseSpec, adela: User
) -> None:
    old = open_sample(sample)
    design = extend(default, SURE, WHY, EACH, wordings=WORDS, policy={"secondary": False})
    forms_services.publish(adela, benchmark="mhb", design=design)
    new = open_sample(sample, 2)
    back = forms_services.restore(adela, benchmark="mhb", version=0)
    plain = open_sample(sample, 3)
    old, new, plain = (Case.objects.get(pk=case.pk) for case in (old, new, plain))
    assert (old.frozen.form_version, new.frozen.form_version, plain.frozen.form_version) == (0, 1, back.version)
    of_folder = replace(sample.form, questions=case_questions(sample.form.questions, sample.form))
    assert old.frozen.form == plain.frozen.form == of_folder
    assert old.frozen.policy.secondary is True
    assert new.frozen.policy == replace(sample.policy, secondary=False)
    keys = [question.key for question in new.frozen.form.questions[5:]]
    assert keys == ["sure", "why", "clear:R1", "clear:R2", "clear:R3"]
    with translation.override("zh-hans"):
        [sure] = [question for question in new.localized_spec.form.questions if question.key == "sure"]
        assert (sure.label, [choice.label for choice in sure.choices]) == ("您有多大把握？", ["Not", "很有把握"])
    assert next(q.label for q in new.localized_spec.form.questions if q.key == "sure") == "How sure are you?"


def test_the_share_samples_the_same_lineages_in_every_version(sample: CaseSpec, default: Design) -> None:
    specs = [replace(sample, lineage=f"mhb-{number:06}") for number in range(400)]
    drawn = [is_sampled(spec, 25) for spec in specs]
    assert 60 < sum(drawn) < 140
    assert drawn == [is_sampled(replace(spec, version=2), 25) for spec in specs]
    assert all(is_sampled(spec, 100) for spec in specs)
    assert not any(is_sampled(spec, 0) for spec in specs)
    assert apply_design(replace(default, share=0), 1, sample).policy.primary is False


def test_the_objection_period_comes_from_the_version_or_else_from_the_folder(
    sample: CaseSpec, default: Design, adela: User
) -> None:
    assert open_sample(sample).frozen.policy.objection_hours == 72
    forms_services.publish(adela, benchmark="mhb", design=replace(default, objection_hours=24))
    assert open_sample(sample, 2).frozen.policy.objection_hours == 24
    assert design_from_json(design_to_json(default)).objection_hours is None, "older versions do not contain it"


def test_a_case_outside_the_share_opens_as_not_sampled(sample: CaseSpec, default: Design, adela: User) -> None:
    forms_services.publish(adela, benchmark="mhb", design=replace(default, share=0))
    case = open_sample(sample)
    assert (case.state, case.status) == (State.APPROVED, "not-sampled")


# ---------------------------------------------------------------------------------------- answering


def test_optional_conditional_and_written_answers(sample: CaseSpec, default: Design) -> None:
    design = extend(default, replace(SURE, required=False), WHY)
    spec = apply_design(design, 1, sample)
    answers = complete(spec)
    assert problems(spec.form, answers) == [Problem("question.why.note", "unanswered")]
    assert problems(spec.form, replace(answers, questions={**answers.questions, "why": Answer(note="A guess.")})) == []
    assert problems(spec.form, replace(answers, questions={**answers.questions, "sure": Answer("2")})) == []
    assert problems(spec.form, replace(answers, questions={**answers.questions, "sure": Answer("")})) == []
    rows = {row.choice.name: row for row in fill_form(spec.form, answers).questions}
    assert rows["question.why"].when == ("question.sure", "1")
    assert "How sure are you?" in rows["question.why"].condition
    assert [name for name, row in rows.items() if row.sources] == ["question.factual:A1"]


def test_a_kind_of_source_can_be_required(sample: CaseSpec, default: Design) -> None:
    yes, no = default.questions[2].choices
    design = change_question("factual", choices=(replace(yes, evidence_kinds=("doi", "pmid")), no))(default)
    assert forms_services.faults("mhb", design) == []
    spec = apply_design(design, 1, sample)
    assert problems(spec.form, complete(spec)) == [Problem("citations", "evidence-kind-missing")]
    cited = replace(CITATION, kind="pmid", reference="12345678", trap="A1", level="study")
    assert problems(spec.form, replace(complete(spec), citations=(cited,))) == []


def test_answers_to_added_questions_are_stored_compared_and_counted(
    sample: CaseSpec, default: Design, adela: User, ana: User, bo: User
) -> None:
    late = Question("late", "Only at the second look?", "", YES_NO, stages=("secondary",))
    design = extend(default, SURE, WHY, EACH, late, policy={"secondary_confirms": False})
    forms_services.publish(adela, benchmark="mhb", design=design)
    open_sample(sample)
    case = answer(ana, sure=Answer("1"), why=Answer(note="New to me."))
    case = answer(bo, sure=Answer("2"), why=Answer(note="stale"), late=Answer("no"), **{"clear:R2": Answer("no")})
    case = Case.objects.get(pk=case.pk)
    assert case.state == State.APPROVED, "differing answers to questions that are not compared are no dissent"
    first, second = visibility.counted_reviews().order_by("id")
    assert first.answers["questions"]["why"] == {"value": "", "note": "New to me."}
    assert "why" not in second.answers["questions"], "its condition was not met"
    assert "late" not in first.answers["questions"]
    compared = compare(case.localized_spec.form, named_columns([first, second]))
    assert [line.title for line in compared.differing] == ["Is it clear? · R2"]
    assert [line.title for line in compared.free] == ["How sure are you?", "Evidence"]
    lines = {line.key: line.agreement for line in agreement_table(benchmark="mhb").lines}
    assert lines["question.clear"].raw.value == pytest.approx(2 / 3)
    assert lines["question.sure"].raw.value == 0
    assert not {"question.why", "question.clear:R1"} & lines.keys()


def test_nothing_about_traps_is_shown_before_the_reveal(
    sample: CaseSpec, default: Design, adela: User, ana: User
) -> None:
    words = {"zh-hans": {**default.wordings["zh-hans"], "clear.label": "陷阱是否清楚？"}}
    question = replace(SURE, first_look=True)
    forms_services.publish(adela, benchmark="mhb", design=extend(default, question, EACH, wordings=words))
    open_sample(sample)
    assignment = claim(ana)
    shown = ReviewTurn(ana, assignment).shows
    assert [question.key for question in shown.form.questions] == ["naturalness", "noticed", "sure"]
    assert (shown.form.wordings, shown.form.rubrics, shown.form.terms) == ({}, (), ())
    # Even an unchecked design asks nothing about a trap in the first look.
    forced = apply_design(extend(default, replace(EACH, first_look=True)), 1, sample)
    assert "clear:R1" not in {question.key for question in forced.form.first_look.questions}


def test_the_check_knows_every_stage_of_review() -> None:
    assert set(check.STAGES) == {state for state in State if not state.final}
