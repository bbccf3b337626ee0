"""Signing off: name, time and meaning stay with a review; where the policy asks for the password, nothing goes without it."""

import json
import logging
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.urls import reverse

from review import errors, services
from review.machine import Policy
from review.models import Draft, Event, Review, User
from review.spec import answers_to_json
from tests.review.factories import (
    PASSWORD,
    account,
    approving,
    opened,
    rejecting,
    say,
    take,
    to_adjudication,
    to_secondary,
)

pytestmark = pytest.mark.django_db

SIGNED = Policy(sign_with_password=True)


def test_what_each_signature_means(ana: User, bo: User, chen: User, dina: User) -> None:
    to_adjudication(ana, bo)
    say(chen, approving())
    say(dina, approving())
    signed = list(Review.objects.order_by("pk").values_list("signed_as", "meaning"))
    assert signed == [
        ("Ana Alves (ana)", "review"),
        ("Bo Berg (bo)", "verification"),
        ("Bo Berg (bo)", "verification"),
        ("Chen Li (chen)", "adjudication"),
        ("Dina Daoud (dina)", "adjudication"),
    ]
    meanings = [event.data["meaning"] for event in Event.objects.filter(kind=Event.Kind.SUBMITTED).order_by("sequence")]
    assert meanings == [meaning for _name, meaning in signed]


def test_the_name_is_the_one_of_then(ana: User, adela: User, client: Any) -> None:
    case = to_secondary(ana)
    User.objects.filter(pk=ana.pk).update(last_name="Married")
    assert Review.objects.get().signed_as == "Ana Alves (ana)"
    client.force_login(adela)
    page = client.get(reverse("review:history", args=[case.pk])).content.decode()
    assert "Ana Alves (ana)" in page
    assert "signed as a review" in page


def test_an_account_without_a_name_signs_by_its_own(db: None) -> None:
    nameless = account("nameless")
    to_secondary(nameless)
    assert Review.objects.get().signed_as == "nameless"


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD.upper(), PASSWORD + " "])
def test_a_wrong_password_submits_nothing(ana: User, password: str) -> None:
    opened(policy=SIGNED)
    assignment = take(ana)
    assert assignment.token is not None
    before = Event.objects.count()
    with pytest.raises(errors.SignatureRefused):
        services.submit(ana, assignment.pk, assignment.token, approving(), password=password)
    assert (Review.objects.count(), Event.objects.count()) == (0, before)
    review = services.submit(ana, assignment.pk, assignment.token, approving(), password=PASSWORD)
    assert review.signed_as == "Ana Alves (ana)"


def test_where_none_is_asked_none_is_looked_at(ana: User) -> None:
    opened()
    assignment = take(ana)
    assert assignment.token is not None
    assert services.submit(ana, assignment.pk, assignment.token, approving(), password="anything")


def posted(assignment: Any, password: str) -> dict[str, str]:
    """The form of the page, filled in in favour."""
    answers = {f"question.{key}": answer.value for key, answer in approving().questions.items()}
    rubrics = {f"rubric.{key}": finding.value for key, finding in approving().rubrics.items()}
    return {"token": str(assignment.token), "verdict": "approve", "password": password, **answers, **rubrics}


def test_the_page(ana: User, client: Any) -> None:
    opened(policy=SIGNED)
    assignment = take(ana)
    client.force_login(ana)
    address = reverse("review:case", args=[assignment.pk])
    submit = reverse("review:submit", args=[assignment.pk])
    assert 'name="password"' in client.get(address).content.decode()
    refused = client.post(submit, {**posted(assignment, "wrong"), "reason": "What I had typed."})
    html = refused.content.decode()
    assert refused.status_code == 403
    assert "This is not your password" in html
    assert "What I had typed." in html, "what was typed is not lost"
    assert "wrong" not in html.split('name="password"')[1].split(">")[0]
    assert client.post(submit, posted(assignment, PASSWORD)).status_code == 302
    assert Review.objects.get().meaning == "review"


def test_a_draft_keeps_no_password(ana: User, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    opened(policy=SIGNED)
    assignment = take(ana)
    client.force_login(ana)
    secret = "nobody may keep this"
    with caplog.at_level(logging.DEBUG):
        client.post(reverse("review:draft", args=[assignment.pk]), {**posted(assignment, secret), "revision": "0"})
        client.post(reverse("review:submit", args=[assignment.pk]), posted(assignment, secret))
    kept = [json.dumps(row, default=str) for model in (Draft, Event, AccessAttempt) for row in model.objects.values()]
    assert Draft.objects.exists()
    assert AccessAttempt.objects.exists()
    assert secret not in "".join(kept)
    assert secret not in caplog.text


def test_guessing_is_counted_and_ends(ana: User, client: Any) -> None:
    opened(policy=SIGNED)
    assignment = take(ana)
    client.force_login(ana)
    submit = reverse("review:submit", args=[assignment.pk])
    answers = [client.post(submit, posted(assignment, "guess")).status_code for _ in range(settings.AXES_FAILURE_LIMIT)]
    assert answers[:-1] == [403] * (settings.AXES_FAILURE_LIMIT - 1)
    assert answers[-1] == 429
    assert client.post(submit, posted(assignment, PASSWORD)).status_code == 429, "not even the right one"
    assert not Review.objects.exists()


def test_who_is_locked_out_can_submit_where_no_password_is_asked(ana: User, client: Any) -> None:
    opened(policy=SIGNED, number=1)
    assignment = take(ana)
    client.force_login(ana)
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post(reverse("review:submit", args=[assignment.pk]), posted(assignment, "guess"))
    assert assignment.token is not None
    services.release(ana, assignment.pk, assignment.token)
    opened(number=2)
    other = take(ana)
    assert other.case.title == "Case 2"
    assert client.post(reverse("review:submit", args=[other.pk]), posted(other, "")).status_code == 302


def test_the_api(ana: User, client: Any) -> None:
    opened(policy=SIGNED)
    assignment = take(ana)
    client.force_login(ana)
    address = reverse("api:assignment-submit", args=[assignment.pk])
    body = {"token": str(assignment.token), "answers": answers_to_json(approving())}

    def send(**more: str) -> Any:
        return client.post(address, {**body, **more}, content_type="application/json")

    refused = send()
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mhb:signature-refused")
    assert send(password="guess").status_code == 403
    assert AccessAttempt.objects.get().failures_since_start == 2
    done = send(password=PASSWORD)
    assert done.status_code == 201, done.content
    assert (done.json()["signed_as"], done.json()["meaning"]) == ("Ana Alves (ana)", "review")


def test_every_phase_is_signed(ana: User, bo: User) -> None:
    case = opened(policy=SIGNED)
    for physician, answers in ((ana, approving()), (bo, approving()), (bo, approving())):
        assignment = take(physician)
        assert assignment.token is not None
        with pytest.raises(errors.SignatureRefused):
            services.submit(physician, assignment.pk, assignment.token, rejecting())
        services.submit(physician, assignment.pk, assignment.token, answers, password=PASSWORD)
    case.refresh_from_db()
    assert case.state == "approved"
