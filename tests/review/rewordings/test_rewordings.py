"""Rewordings: the first reviewer may object in time; a changed meaning goes to adjudicators."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from review import errors
from review.assignments import queries as assignments_queries
from review.assignments import retraction
from review.audit import verification
from review.cases import queries
from review.cases import services as cases_services
from review.models import Assignment, Audit, Case, Event, Review, Rewording, RewordingOutcome, User
from review.rewordings import queries as rewordings_queries
from review.rewordings import services
from review.rules.questions import AddedRubric, Answers, RubricAnswer
from review.rules.state_machine import Consent, Ground, Policy, State
from review.turns.turn import objection_among, readable_reviews
from tests.conftest import Clock, RunConcurrently
from tests.review.audit.tampering import sql, unprotected
from tests.review.factories import (
    FULL_FORM,
    account,
    approval,
    case_in_secondary,
    claim,
    claim_and_submit,
    correction,
    full_approval,
    open_case,
    rejection,
    submit,
)
from tests.review.pages import HTMX, Browse, Elements, checked_value, post, refused_page, text_of

SETTLE = Policy(settle_wording=True)
NEW_WORDING = "Says that the drug is invented."
OBJECTION = "Invented is not the same as unknown."


def rewording_answers(declaration: str = "wording", **changes: str) -> Answers:
    return correction(NEW_WORDING, change_reason="Clearer.", declaration=declaration, **changes)


def ask_for_consent(
    ana: User, bo: User, *, policy: Policy = SETTLE, declaration: str = "wording"
) -> tuple[Case, Rewording]:
    """A case whose rewording waits for the first reviewer, and that rewording."""
    case = case_in_secondary(ana, policy=policy)
    claim_and_submit(bo, approval(), rewording_answers(declaration))
    case.refresh_from_db()
    return case, Rewording.objects.get(case=case)


def state_and_ground(case: Case) -> tuple[str, str]:
    """The stored state and ground of a case."""
    case.refresh_from_db()
    return case.state, case.ground


def event_kinds(case: Case) -> list[str]:
    return list(Event.objects.filter(case=case).values_list("kind", flat=True))


@pytest.mark.both
def test_a_rewording_waits_for_the_first_reviewer_and_is_approved_when_accepted(db: None, ana: User, bo: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    assert (case.state, case.ground, case.closed_at) == (State.SECONDARY, "", None)
    assert not Assignment.objects.filter(case=case).exclude(hold=Assignment.Hold.DONE).exists(), "nobody can claim it"
    assert rewording.physician == ana
    assert rewording.due_at - rewording.asked_at == timedelta(hours=72)
    assert list(rewordings_queries.waiting_for(ana)) == [rewording]
    [rubric] = rewordings_queries.reworded_rubrics(rewording)
    assert (rubric.key, rubric.before, rubric.after) == ("R1", "Says that the drug does not exist.", NEW_WORDING)
    services.accept(ana, rewording.pk)
    assert state_and_ground(case) == (State.APPROVED, Ground.CONSENSUS)
    assert queries.settled_case(case).rubrics[0].criterion == NEW_WORDING
    assert event_kinds(case)[-4:] == ["submitted", "reworded", "accepted", "closed"]
    assert not rewordings_queries.waiting_for(ana).exists()
    assert not list(verification.check(Audit()))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM review_rewordingoutcome",
        "UPDATE review_rewordingoutcome SET consent = 'accepted', reason = ''",
        "UPDATE review_rewordingoutcome SET reason = 'Another.'",
    ],
)
def test_an_outcome_that_is_deleted_or_changed_in_the_database_is_named(
    db: None, ana: User, bo: User, statement: str
) -> None:
    case, rewording = ask_for_consent(ana, bo)
    services.object_to(ana, rewording.pk, OBJECTION)
    assert not list(verification.check(Audit()))
    with unprotected("review_rewordingoutcome"):
        sql(statement)
    [fault] = verification.check(Audit())
    assert (fault.what, fault.case) == (verification.FaultCode.CASE_REWORDING, case.pk)


def test_where_rubrics_are_signed_silence_sends_the_case_to_adjudication(
    db: None, ana: User, bo: User, client: Client, clock: Clock
) -> None:
    case, rewording = ask_for_consent(ana, bo, policy=replace(SETTLE, signed_wording=True))
    client.force_login(ana)
    assert "Your agreement is needed" in text_of(client.get(reverse("review:rewording", args=[rewording.pk])))
    assert "or two further physicians decide" in text_of(client.get(reverse("review:workbench")))
    clock.advance(seconds=73 * 3600)
    assert services.lapse_due() == 1
    assert state_and_ground(case) == (State.ADJUDICATION, "")


@pytest.mark.both
def test_an_objection_sends_the_case_to_adjudication(db: None, ana: User, bo: User, chen: User, dina: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    with pytest.raises(errors.EmptyText):
        services.object_to(ana, rewording.pk, " \n")
    services.object_to(ana, rewording.pk, f" {OBJECTION} ")
    assert state_and_ground(case) == (State.ADJUDICATION, "")
    assert Event.objects.filter(case=case, kind="objected").get().data["reason"] == OBJECTION
    for adjudicator in (chen, dina):
        assert objection_among(readable_reviews(adjudicator, case)) is None
        claim(adjudicator)
        shown = objection_among(readable_reviews(adjudicator, case))
        assert shown is not None
        assert shown.reason == OBJECTION
        claim_and_submit(adjudicator, correction(NEW_WORDING))
    assert state_and_ground(case) == (State.APPROVED, Ground.ADJUDICATED)


@pytest.mark.both
def test_without_an_objection_the_sweeper_approves_the_rewording_after_the_deadline(
    db: None, ana: User, bo: User, clock: Clock
) -> None:
    case, rewording = ask_for_consent(ana, bo, policy=replace(SETTLE, objection_hours=5))
    clock.advance(seconds=5 * 3600 - 60)
    assert services.lapse_due() == 0
    clock.advance(seconds=60)
    for respond in (services.accept, lambda physician, pk: services.object_to(physician, pk, OBJECTION)):
        with pytest.raises(errors.RewordingLapsed):
            respond(ana, rewording.pk)
    assert services.lapse_due() == 1
    assert services.lapse_due() == 0, "it lapses only once"
    assert state_and_ground(case) == (State.APPROVED, Ground.OBJECTION_LAPSED)
    assert event_kinds(case)[-2:] == ["lapsed", "closed"]
    assert Event.objects.filter(case=case, kind="lapsed").get().actor is None
    with pytest.raises(errors.RewordingLapsed):
        services.accept(ana, rewording.pk)


@pytest.mark.parametrize(
    ("policy", "answers", "outcome"),
    [
        (SETTLE, rewording_answers("meaning"), (State.ADJUDICATION, "")),
        (
            SETTLE,
            rejection(rubrics=correction(NEW_WORDING).rubrics, change_reason="Clearer."),
            (State.ADJUDICATION, ""),
        ),
        (Policy(), rewording_answers("meaning"), (State.APPROVED, Ground.CONSENSUS)),
        (replace(SETTLE, objection_hours=0), rewording_answers(), (State.APPROVED, Ground.CORRECTED)),
    ],
    ids=["another meaning", "a rejection", "wordings are not settled", "no hours for an objection"],
)
def test_the_first_reviewer_is_not_asked(
    db: None, ana: User, bo: User, policy: Policy, answers: Answers, outcome: tuple[str, str]
) -> None:
    case = case_in_secondary(ana, policy=policy)
    claim_and_submit(bo, approval(), answers)
    assert state_and_ground(case) == outcome
    assert not Rewording.objects.exists()


@pytest.mark.parametrize("declaration", ["", "perhaps"])
def test_a_difference_must_be_declared(db: None, ana: User, bo: User, declaration: str) -> None:
    case = case_in_secondary(ana, policy=SETTLE)
    claim_and_submit(bo, approval())
    with pytest.raises(errors.Incomplete) as refused:
        submit(claim(bo), rewording_answers(declaration))
    code = "unknown-value" if declaration else "undeclared"
    assert [(problem.field, problem.code) for problem in refused.value.problems] == [("declaration", code)]
    assert state_and_ground(case) == (State.SECONDARY, "")


def test_a_declaration_is_dropped_when_the_rubrics_are_the_same(db: None, ana: User, bo: User) -> None:
    case = case_in_secondary(ana, correction(NEW_WORDING), policy=SETTLE)
    claim_and_submit(bo, approval(), rewording_answers("meaning"))
    assert state_and_ground(case) == (State.APPROVED, Ground.CONSENSUS), "the first reviewer's wording was adopted"
    last = Review.objects.filter(case=case).last()
    assert last is not None
    assert last.answers["declaration"] == "", "an answer that was not asked for is not stored"


def test_keeping_the_original_wording_against_a_correction_is_a_difference(db: None, ana: User, bo: User) -> None:
    case = case_in_secondary(ana, correction(NEW_WORDING), policy=SETTLE)
    claim_and_submit(bo, approval(), approval(declaration="wording"))
    [rubric] = rewordings_queries.reworded_rubrics(Rewording.objects.get(case=case))
    assert (rubric.before, rubric.after) == (NEW_WORDING, "Says that the drug does not exist.")


def test_a_second_reviewer_who_stays_blind_declares_their_own_changes(db: None, ana: User, bo: User) -> None:
    case = case_in_secondary(
        ana, correction("Calls it unknown.", "R2"), policy=replace(SETTLE, secondary_confirms=False)
    )
    with pytest.raises(errors.Incomplete):
        submit(claim(bo), correction(NEW_WORDING))
    claim_and_submit(bo, correction(NEW_WORDING, declaration="wording"))
    assert case.state == State.SECONDARY
    [rubric] = rewordings_queries.reworded_rubrics(Rewording.objects.get(case=case))
    assert (rubric.key, rubric.after) == ("R1", NEW_WORDING), (
        "the first reviewer's own correction is kept and not asked about"
    )


def test_added_and_removed_rubrics_are_shown(db: None, ana: User, bo: User) -> None:
    case = open_case(policy=SETTLE, form=FULL_FORM)
    claim_and_submit(ana, full_approval(added=(AddedRubric("Names a source.", ("A1",), "mild"),)))
    changed = full_approval(
        rubrics={**full_approval().rubrics, "R2": RubricAnswer("removed", note="Says nothing new.")},
        added=(AddedRubric("Asks back.", ("A1",), "mild"),),
        change_reason="Shorter.",
        declaration="wording",
    )
    claim_and_submit(bo, full_approval(), changed)
    rubrics = rewordings_queries.reworded_rubrics(Rewording.objects.get(case=case))
    assert [(rubric.before, rubric.after, rubric.note) for rubric in rubrics] == [
        ("Gives no dose.", "", "Says nothing new."),
        ("Names a source.", "", ""),
        ("", "Asks back.", ""),
    ]


def test_a_review_with_a_rewording_cannot_be_retracted(db: None, ana: User, bo: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    assert assignments_queries.retractable_review(bo) is None
    with pytest.raises(errors.NotUndoable):
        retraction.retract(bo, rewording.review_id)
    services.object_to(ana, rewording.pk, OBJECTION)
    with pytest.raises(errors.NotUndoable):
        retraction.retract(bo, rewording.review_id)
    assert state_and_ground(case) == (State.ADJUDICATION, "")


def test_a_withdrawn_case_no_longer_waits_for_consent(db: None, ana: User, bo: User, adela: User, clock: Clock) -> None:
    case, rewording = ask_for_consent(ana, bo)
    cases_services.withdraw(case.pk, actor=adela, reason="Its source was withdrawn.")
    assert not rewordings_queries.waiting_for(ana).exists()
    with pytest.raises(errors.CaseClosed):
        services.accept(ana, rewording.pk)
    clock.advance(days=30)
    assert services.lapse_due() == 0
    assert state_and_ground(case) == (State.WITHDRAWN, Ground.WITHDRAWN)


def test_only_the_first_reviewer_can_answer_and_only_once(
    db: None, ana: User, bo: User, chen: User, adela: User
) -> None:
    _case, rewording = ask_for_consent(ana, bo)
    for other in (bo, chen):
        with pytest.raises(errors.NotAssigned):
            services.accept(other, rewording.pk)
    with pytest.raises(errors.ReviewError):
        services.accept(adela, rewording.pk)
    services.accept(ana, rewording.pk)
    for respond in (services.accept, lambda physician, pk: services.object_to(physician, pk, OBJECTION)):
        with pytest.raises(errors.RewordingAnswered):
            respond(ana, rewording.pk)


@pytest.mark.both
def test_the_database_refuses_changes_of_a_rewording_and_its_outcome(db: None, ana: User, bo: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    outcome = services.accept(ana, rewording.pk)
    tables = (("review_rewording", "due_at"), ("review_rewordingoutcome", "consent"))
    statements = [f"UPDATE {table} SET {column} = {column}" for table, column in tables]
    statements += [f"DELETE FROM {table}" for table, _column in tables]
    for statement in statements:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    second = {"consent": Consent.OBJECTED, "reason": OBJECTION, "at": outcome.at}
    with pytest.raises(IntegrityError), transaction.atomic():
        RewordingOutcome.objects.create(rewording=rewording, **second)
    with pytest.raises(IntegrityError), transaction.atomic():
        Rewording.objects.create(
            case=case, review_id=rewording.review_id, physician=ana, asked_at=outcome.at, due_at=outcome.at
        )


def test_only_one_of_several_simultaneous_answers_counts(run_concurrently: RunConcurrently) -> None:
    ana, bo = account("ana"), account("bo")
    for number in range(4):
        case = open_case(number + 1, policy=SETTLE)
        claim_and_submit(ana, approval())
        claim_and_submit(bo, approval(), rewording_answers())
        rewording = Rewording.objects.get(case=case)

        def accept(pk: int = rewording.pk) -> object:
            return services.accept(ana, pk)

        def object_to(pk: int = rewording.pk) -> object:
            return services.object_to(ana, pk, OBJECTION)

        run_concurrently([accept, object_to, accept])
        case.refresh_from_db()
        [outcome] = RewordingOutcome.objects.filter(rewording=rewording)
        accepted = outcome.consent == Consent.ACCEPTED
        assert case.state == (State.APPROVED if accepted else State.ADJUDICATION)
        assert event_kinds(case).count("closed") == accepted


# -------------------------------------------------------------------------------------------- pages


def test_the_first_reviewer_is_shown_the_difference_and_nothing_else(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case = case_in_secondary(ana, policy=SETTLE)
    answers = replace(rewording_answers(), reason="SECRET reason", change_reason="SECRET change")
    claim_and_submit(bo, approval(), answers)
    rewording = Rewording.objects.get(case=case)
    address = reverse("review:rewording", args=[rewording.pk])
    home = text_of(browse(ana).get(reverse("review:workbench")))
    assert address in home
    page = browse(ana).get(address)
    html = text_of(page)
    assert "<ins>" in html
    assert "<del>" in html
    assert "SECRET" not in html
    assert str(bo) not in html
    for other in (bo, chen):
        assert browse(other).get(address).status_code == 404
        assert address not in text_of(browse(other).get(reverse("review:workbench")))


def test_the_first_reviewer_accepts_or_objects_on_the_page(browse: Browse, ana: User, bo: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    client = browse(ana)
    address = reverse("review:rewording-object", args=[rewording.pk])
    refused = client.post(address, {"reason": " "})
    assert refused.status_code == 422
    assert "errorlist" in text_of(refused)
    assert client.post(address, {"reason": OBJECTION}).status_code == 302
    assert state_and_ground(case)[0] == State.ADJUDICATION
    assert OBJECTION in text_of(client.get(reverse("review:rewording", args=[rewording.pk])))
    again = client.post(reverse("review:rewording-accept", args=[rewording.pk]))
    assert again.status_code == 409


@pytest.mark.parametrize("answer", ["accept", "object"])
def test_after_the_deadline_the_page_says_so_and_still_shows_the_difference(
    browse: Browse, ana: User, bo: User, clock: Clock, answer: str
) -> None:
    case, rewording = ask_for_consent(ana, bo)
    client = browse(ana)
    clock.advance(hours=72)
    late = client.post(reverse(f"review:rewording-{answer}", args=[rewording.pk]), {"reason": OBJECTION})
    assert late.status_code == 409
    assert "The time for an objection has passed." in text_of(late)
    assert "Difference" in text_of(late)
    assert state_and_ground(case) == (State.SECONDARY, ""), "the sweeper closes it"


def test_the_second_reviewer_is_asked_without_javascript(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(ana, policy=SETTLE)
    claim_and_submit(bo, approval())
    assignment = claim(bo)
    client = browse(bo)
    page = client.get(reverse("review:case", args=[assignment.pk]))
    assert [button["value"] for button in Elements(page).named("declaration")] == ["wording", "meaning"]
    assert 'data-given="rewords" data-value="no"' in text_of(page)
    typed = replace(rewording_answers(), declaration="")
    saved = post(client, "draft", assignment, typed, headers=HTMX)
    assert 'data-given="rewords" data-value="yes" hx-swap-oob="true"' in text_of(saved)
    refused = refused_page(client, post(client, "submit", assignment, typed, revision="1"))
    assert 'href="#declaration-1"' in text_of(refused)
    assert "Say whether their meaning is the same." in text_of(refused)
    accepted = post(client, "submit", assignment, typed, revision="2", declaration="wording")
    assert accepted.status_code == 302
    assert Rewording.objects.filter(case=case).exists()
    assert "first reviewer is shown your wording" in text_of(client.get(reverse("review:workbench")))


def test_keeping_a_differing_blind_answer_needs_a_declaration(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(ana, correction(NEW_WORDING), policy=SETTLE)
    claim_and_submit(bo, approval())
    assignment = claim(bo)
    client = browse(bo)
    page = text_of(client.get(reverse("review:case", args=[assignment.pk])))
    assert "data-required-mark" in page.partition('data-when="rewords"')[2]
    refused = refused_page(client, post(client, "submit", assignment, approval()))
    assert checked_value(refused, "declaration") is None
    assert 'data-given="rewords" data-value="yes"' in text_of(refused)
    post(client, "submit", assignment, approval(), declaration="meaning", revision="1")
    assert state_and_ground(case)[0] == State.ADJUDICATION


def test_the_blind_page_of_the_second_reviewer_asks_for_no_declaration(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana, correction(NEW_WORDING), policy=SETTLE)
    page = browse(bo).get(reverse("review:case", args=[claim(bo).pk]))
    assert not Elements(page).named("declaration")
    assert 'id="rewords"' not in text_of(page), "it would reveal that the first reviewer corrected something"


@pytest.mark.parametrize(("blind", "visible"), [(False, True), (True, False)])
def test_adjudicators_read_the_objection_with_the_reviews(
    browse: Browse, ana: User, bo: User, chen: User, blind: bool, visible: bool
) -> None:
    _case, rewording = ask_for_consent(ana, bo, policy=replace(SETTLE, adjudicators_blind=blind))
    services.object_to(ana, rewording.pk, OBJECTION)
    assignment = claim(chen)
    assert (OBJECTION in text_of(browse(chen).get(reverse("review:case", args=[assignment.pk])))) is visible
    api = APIClient()
    api.force_authenticate(chen)
    assert api.get(f"/api/v1/assignments/{assignment.public_id}/").json()["objection"] == (OBJECTION if visible else "")


def test_admins_see_the_deadline_for_an_objection(browse: Browse, adela: User, ana: User, bo: User) -> None:
    case, _rewording = ask_for_consent(ana, bo)
    shown = text_of(browse(adela).get(reverse("review:history", args=[case.pk])))
    assert "may object to the wording until" in shown
    assert browse(adela).get(reverse("review:rewording", args=[1])).status_code == 403


# ---------------------------------------------------------------------------------------------- API


def test_the_api_lists_rewordings_and_takes_objections(ana: User, bo: User, chen: User) -> None:
    case, rewording = ask_for_consent(ana, bo)
    api, other = APIClient(), APIClient()
    api.force_authenticate(ana)
    other.force_authenticate(chen)
    [listed] = api.get("/api/v1/rewordings/").json()["results"]
    assert listed["id"] == rewording.pk
    assert listed["case"] == case.public_id
    assert [rubric["after"] for rubric in listed["rubrics"]] == [NEW_WORDING]
    assert other.get("/api/v1/rewordings/").json()["results"] == []
    address = f"/api/v1/rewordings/{rewording.pk}/"
    assert other.get(address).status_code == other.post(f"{address}accept/").status_code == 404
    assert api.post(f"{address}object/", {"reason": ""}, format="json").status_code == 400
    assert api.post(f"{address}object/", {"reason": OBJECTION}, format="json").status_code == 204
    assert api.post(f"{address}accept/").status_code == 409
    assert api.get(address).json()["rubrics"]
    assert state_and_ground(case)[0] == State.ADJUDICATION


def test_the_api_takes_the_declaration_with_the_answers(ana: User, bo: User) -> None:
    case_in_secondary(ana, policy=SETTLE)
    claim_and_submit(bo, approval())
    assignment = claim(bo)
    api = APIClient()
    api.force_authenticate(bo)
    answers = {
        "questions": {key: {"value": "yes"} for key in ("natural", "aligned")},
        "rubrics": {"R1": {"value": "corrected", "wording": NEW_WORDING}, "R2": {"value": "adequate"}},
        "verdict": "approve",
        "change_reason": "Clearer.",
    }
    address = f"/api/v1/assignments/{assignment.public_id}/submit/"
    refused = api.post(address, {"token": str(assignment.token), "answers": answers}, format="json")
    assert refused.status_code == 422
    assert [problem["code"] for problem in refused.json()["problems"]] == ["undeclared"]
    body = {"token": str(assignment.token), "answers": {**answers, "declaration": "wording"}}
    assert api.post(address, body, format="json").status_code == 201
    assert Rewording.objects.filter(physician=ana).exists()
