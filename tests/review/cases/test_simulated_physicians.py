"""Simulated physicians: the same reviews for a seed, every branch of the machine, no rule broken."""

import json
from collections import Counter
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.core.management.color import no_style
from django.db import connection, transaction

from review import errors
from review.access import visibility
from review.cases import queries
from review.cases.simulated_physicians import SIGNED, Summary, work_queue
from review.models import Case, Review, User
from review.rules.questions import Choice, Form, Question, RubricText
from review.rules.state_machine import Ground, Phase, State, position
from tests.profile import far
from tests.review.factories import FORM, opened

OTHER_FORMS = [
    Form(questions=(Question("one", "One", "", (Choice("3", "Good"), Choice("2", "Fair"), Choice("1", "Bad", True))),)),
    Form(questions=(), rubrics=(RubricText("K1", "指出该药物不存在。"),)),
    Form(questions=(Question("open", "Open", "", (Choice("a", "A"), Choice("b", "B"))),), rubrics=FORM.rubrics),
]


@pytest.fixture
def physicians(physicians: list[User]) -> list[User]:
    """Accounts as the demo makes them."""
    for physician in physicians:
        physician.simulated = True
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)
    return physicians


def queue(count: int) -> None:
    """`count` simulated cases with forms of several shapes, numbered from 1: the order of a claim goes by their keys."""
    from_one = connection.ops.sequence_reset_by_name_sql(no_style(), [{"table": "review_case", "column": "id"}])
    with connection.cursor() as cursor:
        for statement in from_one:
            cursor.execute(statement)
    forms = [FORM, FORM, *OTHER_FORMS]
    for number in range(count):
        opened(number, form=forms[number % len(forms)], simulated=True)


def reviews() -> list[tuple[Any, ...]]:
    rows = Review.objects.order_by("id")
    return list(rows.values_list("case__lineage", "role", "phase", "physician__username", "answers"))


def test_the_same_seed_gives_the_same_reviews(physicians: list[User]) -> None:
    def outcome(seed: int) -> tuple[Summary, list[tuple[Any, ...]]]:
        with transaction.atomic():
            queue(15)
            result = work_queue(seed, 30, physicians), reviews()
            transaction.set_rollback(True)
        return result

    first = outcome(1)
    assert outcome(1) == first
    assert outcome(2)[1] != first[1]


def test_without_a_limit_every_case_is_decided_in_every_way(physicians: list[User]) -> None:
    queue(100)
    done = work_queue(5, None, physicians, dissent=0.25)
    assert done.reviews == Review.objects.count()
    assert sum(done.verdicts.values()) == done.reviews
    assert set(Case.objects.values_list("state", flat=True)) == {State.APPROVED, State.REJECTED}
    grounds = set(Case.objects.values_list("ground", flat=True))
    assert grounds == {Ground.CONSENSUS, Ground.RUBRIC_INADEQUATE, Ground.ADJUDICATED, Ground.UNDECIDED}
    assert Review.objects.filter(phase=Phase.DISCUSS).exists()
    assert done.corrected
    assert done.inadequate
    assert Case.objects.filter(state=State.APPROVED).count() > Case.objects.filter(state=State.REJECTED).count()
    for case in Case.objects.all():
        assert case.state == position(case.frozen.policy, visibility.opinions(case)).state


@pytest.mark.parametrize("seed", far([3], [1, 3, 5]))  # seeds with a dispute on the way; no dispute, no adjudication
def test_at_the_limit_cases_are_left_in_every_state(physicians: list[User], seed: int) -> None:
    queue(40)
    done = work_queue(seed, 60, physicians)
    assert done.reviews == 60
    assert {state: count for state, count in done.states.items() if count} == Counter(
        Case.objects.values_list("state", flat=True)
    )
    assert all(done.states[state] for state in State if state is not State.WITHDRAWN)


def test_it_goes_on_where_it_stopped(physicians: list[User]) -> None:
    queue(10)
    work_queue(3, 7, physicians)
    work_queue(3, None, physicians)
    assert {State(state).final for state in Case.objects.values_list("state", flat=True)} == {True}


def test_the_last_dispute_is_settled_when_nothing_else_is_left(physicians: list[User]) -> None:
    queue(10)
    work_queue(3, 1000, physicians, dissent=0.5)
    assert {State(state).final for state in Case.objects.values_list("state", flat=True)} == {True}


def test_with_neither_dissent_nor_bad_cases_all_are_approved_by_consensus(physicians: list[User]) -> None:
    queue(10)
    work_queue(3, None, physicians, dissent=0, reject=0)
    assert set(Case.objects.values_list("ground", "state")) == {(Ground.CONSENSUS, State.APPROVED)}


def test_too_few_physicians_leave_what_they_may_not_decide(physicians: list[User]) -> None:
    queue(20)
    work_queue(3, None, physicians[:2], dissent=0.5)
    assert set(Case.objects.exclude(closed_at__isnull=False).values_list("state", flat=True)) == {State.ADJUDICATION}


def test_every_word_of_theirs_is_signed(physicians: list[User]) -> None:
    queue(40)
    work_queue(7, None, physicians, dissent=0.4, reject=0.3)
    written = 0
    for answers in Review.objects.values_list("answers", flat=True):
        words = [answers["reason"], answers["change_reason"]]
        words += [answer["note"] for answer in (*answers["questions"].values(), *answers["rubrics"].values())]
        written += len([word for word in words if word])
        assert all(word.endswith(SIGNED) for word in words if word)
    assert written > 40


def test_a_chinese_rubric_is_reworded_in_chinese(physicians: list[User]) -> None:
    for number in range(30):
        opened(number, form=OTHER_FORMS[1], simulated=True)
    work_queue(1, None, physicians, dissent=0, reject=0)
    original = {rubric.criterion for rubric in OTHER_FORMS[1].rubrics}
    found = {rubric.criterion for case in Case.objects.all() for rubric in queries.settled_case(case).rubrics}
    wordings = found - original
    assert wordings
    assert all(word.startswith("指出该药物不存在，") and word.endswith("。") for word in wordings)


def test_the_command_prints_one_object(physicians: list[User]) -> None:
    queue(8)
    out = StringIO()
    call_command("demo_reviews", "--seed", "4", "--limit", "6", "--json", stdout=out)
    printed = json.loads(out.getvalue())
    assert (printed["reviews"], printed["physicians"], sum(printed["states"].values())) == (6, 6, 8)
    call_command("demo_reviews", "--seed", "4", "--limit", "2", stdout=out)
    assert "2 reviews by 6 simulated physicians" in out.getvalue()


def test_the_command_reviews_nothing_that_a_real_model_made(physicians: list[User]) -> None:
    queue(2)
    opened(50)
    with pytest.raises(CommandError, match="real models"):
        call_command("demo_reviews", "--seed", "4")
    assert not Review.objects.exists()


def test_the_command_wants_simulated_physicians(adela: User, ana: User) -> None:
    queue(2)
    with pytest.raises(CommandError, match="no accounts of simulated physicians"):
        call_command("demo_reviews", "--seed", "4")
    assert not Review.objects.exists(), "not in the name of a person"


def test_no_script_reviews_in_a_persons_name(physicians: list[User], adela: User) -> None:
    queue(2)
    User.objects.filter(pk=physicians[0].pk).update(simulated=False)
    physicians[0].refresh_from_db()
    with pytest.raises(errors.NotSimulated):
        work_queue(3, None, physicians)
    assert not Review.objects.exists()


def test_a_simulated_physician_is_named_as_one(physicians: list[User]) -> None:
    assert str(physicians[0]) == "Ana Alves (simulated)"


@pytest.mark.parametrize("wrong", [("--dissent", "1.5"), ("--reject", "-1"), ("--reject", "nan"), ("--limit", "-3")])
def test_the_command_refuses_wrong_settings(db: None, wrong: tuple[str, str]) -> None:
    with pytest.raises(CommandError):
        call_command("demo_reviews", "--seed", "4", f"{wrong[0]}={wrong[1]}")
