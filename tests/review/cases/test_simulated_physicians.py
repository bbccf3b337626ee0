"""Simulated physicians: reproducible reviews that reach every branch of the state machine."""

import json
from collections import Counter
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.core.management.color import no_style
from django.db import connection, transaction

from review import errors
from review.cases import queries
from review.management.simulated_physicians import SIGNED, Summary, work_queue
from review.models import Case, Review, User
from review.rules.questions import Choice, Form, Question, RubricText
from review.rules.state_machine import Ground, Phase, State
from tests.profile import by_profile
from tests.review.factories import FORM, open_case, replayed

OTHER_FORMS = [
    Form(questions=(Question("one", "One", "", (Choice("3", "Good"), Choice("2", "Fair"), Choice("1", "Bad", True))),)),
    Form(questions=(), rubrics=(RubricText("K1", "指出该药物不存在。"),)),
    Form(questions=(Question("open", "Open", "", (Choice("a", "A"), Choice("b", "B"))),), rubrics=FORM.rubrics),
]


@pytest.fixture
def physicians(physicians: list[User]) -> list[User]:
    """Simulated accounts, as the demo creates them."""
    for physician in physicians:
        physician.simulated = True
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)
    return physicians


def open_cases(count: int) -> None:
    """Open `count` simulated cases with forms of several shapes.

    Their primary keys start at 1 because claims are ordered by them.
    """
    restart_keys = connection.ops.sequence_reset_by_name_sql(no_style(), [{"table": "review_case", "column": "id"}])
    with connection.cursor() as cursor:
        for statement in restart_keys:
            cursor.execute(statement)
    forms = [FORM, FORM, *OTHER_FORMS]
    for number in range(count):
        open_case(number, form=forms[number % len(forms)], simulated=True)


def stored_reviews() -> list[tuple[Any, ...]]:
    """The reviews in the order in which they were submitted."""
    rows = Review.objects.order_by("id")
    return list(rows.values_list("case__lineage", "role", "phase", "physician__username", "answers"))


def test_the_same_seed_gives_the_same_reviews(physicians: list[User]) -> None:
    def outcome(seed: int) -> tuple[Summary, list[tuple[Any, ...]]]:
        with transaction.atomic():
            open_cases(15)
            result = work_queue(seed, 30, physicians), stored_reviews()
            transaction.set_rollback(True)
        return result

    first = outcome(1)
    assert outcome(1) == first
    assert outcome(2)[1] != first[1]


def test_without_a_limit_every_case_is_decided_and_every_ground_occurs(physicians: list[User]) -> None:
    open_cases(100)
    summary = work_queue(3, None, physicians, dissent=0.25)  # under this seed every ground occurs
    assert summary.reviews == Review.objects.count()
    assert sum(summary.verdicts.values()) == summary.reviews
    assert set(Case.objects.values_list("state", flat=True)) == {State.APPROVED, State.REJECTED}
    grounds = set(Case.objects.values_list("ground", flat=True))
    assert grounds == {Ground.CONSENSUS, Ground.RUBRIC_INADEQUATE, Ground.ADJUDICATED, Ground.UNDECIDED}
    assert Review.objects.filter(phase=Phase.DISCUSS).exists()
    assert summary.corrected
    assert summary.inadequate
    assert Case.objects.filter(state=State.APPROVED).count() > Case.objects.filter(state=State.REJECTED).count()
    for case in Case.objects.all():
        assert case.state == replayed(case).state


@pytest.mark.parametrize("seed", by_profile([3], [1, 3, 5]))  # seeds under which a dispute leads to adjudication
def test_a_limit_leaves_cases_in_every_state(physicians: list[User], seed: int) -> None:
    open_cases(40)
    summary = work_queue(seed, 60, physicians)
    assert summary.reviews == 60
    assert {state: count for state, count in summary.states.items() if count} == Counter(
        Case.objects.values_list("state", flat=True)
    )
    assert all(summary.states[state] for state in State if state is not State.WITHDRAWN)


def test_a_second_call_continues_the_queue(physicians: list[User]) -> None:
    open_cases(10)
    work_queue(3, 7, physicians)
    work_queue(3, None, physicians)
    assert {State(state).final for state in Case.objects.values_list("state", flat=True)} == {True}


def test_the_last_dispute_is_settled_too(physicians: list[User]) -> None:
    open_cases(10)
    work_queue(3, 1000, physicians, dissent=0.5)
    assert {State(state).final for state in Case.objects.values_list("state", flat=True)} == {True}


def test_without_dissent_and_rejections_all_cases_are_approved_by_consensus(physicians: list[User]) -> None:
    open_cases(10)
    work_queue(3, None, physicians, dissent=0, reject=0)
    assert set(Case.objects.values_list("ground", "state")) == {(Ground.CONSENSUS, State.APPROVED)}


def test_two_physicians_leave_their_disputes_in_adjudication(physicians: list[User]) -> None:
    open_cases(20)
    work_queue(3, None, physicians[:2], dissent=0.5)
    assert set(Case.objects.exclude(closed_at__isnull=False).values_list("state", flat=True)) == {State.ADJUDICATION}


def test_every_text_of_a_simulated_physician_is_marked_as_simulated(physicians: list[User]) -> None:
    open_cases(40)
    work_queue(7, None, physicians, dissent=0.4, reject=0.3)
    texts_count = 0
    for answers in Review.objects.values_list("answers", flat=True):
        texts = [answers["reason"], answers["change_reason"]]
        texts += [answer["note"] for answer in (*answers["questions"].values(), *answers["rubrics"].values())]
        texts_count += len([text for text in texts if text])
        assert all(text.endswith(SIGNED) for text in texts if text)
    assert texts_count > 40


def test_a_chinese_rubric_is_reworded_in_chinese(physicians: list[User]) -> None:
    for number in range(30):
        open_case(number, form=OTHER_FORMS[1], simulated=True)
    work_queue(1, None, physicians, dissent=0, reject=0)
    original = {rubric.criterion for rubric in OTHER_FORMS[1].rubrics}
    settled = {rubric.criterion for case in Case.objects.all() for rubric in queries.settled_case(case).rubrics}
    wordings = settled - original
    assert wordings
    assert all(wording.startswith("指出该药物不存在，") and wording.endswith("。") for wording in wordings)


def test_the_command_prints_one_json_object_or_a_sentence(physicians: list[User]) -> None:
    open_cases(8)
    out = StringIO()
    call_command("demo_reviews", "--seed", "4", "--limit", "6", "--json", stdout=out)
    printed = json.loads(out.getvalue())
    assert (printed["reviews"], printed["physicians"], sum(printed["states"].values())) == (6, 6, 8)
    call_command("demo_reviews", "--seed", "4", "--limit", "2", stdout=out)
    assert "physicians: 6\nreviews: 2\n" in out.getvalue()


def test_the_command_refuses_cases_of_real_models(physicians: list[User]) -> None:
    open_cases(2)
    open_case(50)
    with pytest.raises(CommandError, match="real models"):
        call_command("demo_reviews", "--seed", "4")
    assert not Review.objects.exists()


def test_the_command_needs_simulated_physicians(adela: User, ana: User) -> None:
    open_cases(2)
    with pytest.raises(CommandError, match="no accounts of simulated physicians"):
        call_command("demo_reviews", "--seed", "4")
    assert not Review.objects.exists(), "a real person must not sign simulated reviews"


def test_simulated_reviews_are_refused_for_a_real_person(physicians: list[User], adela: User) -> None:
    open_cases(2)
    User.objects.filter(pk=physicians[0].pk).update(simulated=False)
    physicians[0].refresh_from_db()
    with pytest.raises(errors.NotSimulated):
        work_queue(3, None, physicians)
    assert not Review.objects.exists()


def test_the_name_of_a_simulated_physician_says_so(physicians: list[User]) -> None:
    assert str(physicians[0]) == "Ana Alves (simulated)"


@pytest.mark.parametrize("option", [("--dissent", "1.5"), ("--reject", "-1"), ("--reject", "nan"), ("--limit", "-3")])
def test_the_command_refuses_options_out_of_range(db: None, option: tuple[str, str]) -> None:
    with pytest.raises(CommandError):
        call_command("demo_reviews", "--seed", "4", f"{option[0]}={option[1]}")
