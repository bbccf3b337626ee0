"""Simulated physicians answer all a form can ask: first look, evidence, severity, reasons."""

from datetime import date

import pytest
from django.db import transaction

from review.management.simulated_physicians import SIGNED, work_queue
from review.models import Assignment, Case, FirstLook, Review, User
from review.rules.case_spec import answers_from_json
from review.rules.citations import citation_faults
from review.rules.state_machine import Role, State
from tests.review.factories import FIRST_LOOK_BLOCKS, FIRST_LOOK_POLICY, FULL_FORM, open_case, reset_sequences


@pytest.fixture
def keys_from_one(db: None) -> None:
    """Restart the primary keys at 1: they decide which physicians disagree on which cases."""
    reset_sequences(User, Case, Assignment)


@pytest.fixture
def physicians(keys_from_one: None, physicians: list[User]) -> list[User]:
    """Simulated accounts, as the demo creates them."""
    for physician in physicians:
        physician.simulated = True
    User.objects.filter(pk__in=[physician.pk for physician in physicians]).update(simulated=True)
    return physicians


def test_every_case_is_decided_with_complete_answers(physicians: list[User]) -> None:
    for number in range(40):
        open_case(number, form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, simulated=True)
    summary = work_queue(7, None, physicians, dissent=0.25, reject=0.2)
    assert summary.reviews == Review.objects.count()
    assert set(Case.objects.values_list("state", flat=True)) == {State.APPROVED, State.REJECTED}
    assert Review.objects.filter(role=Role.ADJUDICATOR_2).exists()
    reviews = [answers_from_json(review.answers) for review in Review.objects.all()]
    cited = [citation for answers in reviews for citation in answers.citations]
    assert cited
    assert all(SIGNED in citation.passage and citation.reference == "Simulated guideline" for citation in cited)
    assert not any(citation_faults([citation], today=date.max) for citation in cited)
    severities = {
        finding.severity for answers in reviews for finding in answers.rubrics.values() if finding.value == "adequate"
    }
    assert severities == {level.value for level in FULL_FORM.severities}
    assert {answers.reason_code for answers in reviews} == {"", "unclear", "disputed"}
    assert {answers.dissent_code for answers in reviews} == {"", "misread", "opinion"}
    first_looks = FirstLook.objects.values_list("assignment", "physician")
    assert set(first_looks) == set(Review.objects.values_list("assignment", "physician")), (
        "one first look for each physician with a review"
    )


def test_the_same_seed_gives_the_same_details(physicians: list[User]) -> None:
    def outcome(seed: int) -> list[object]:
        with transaction.atomic():
            open_case(1, form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
            work_queue(seed, None, physicians)
            rows = list(Review.objects.order_by("id").values_list("answers", "physician"))
            transaction.set_rollback(True)
        return list(rows)

    assert outcome(1) == outcome(1)
