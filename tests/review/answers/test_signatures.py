"""Signatures: a review keeps name, time and meaning; a required password cannot be skipped."""

import json
import logging
import re
from typing import Any

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from axes.models import AccessAttempt
from django.conf import settings
from django.urls import reverse

from review import errors
from review.assignments import claims, services
from review.models import Draft, Event, Review, User
from review.rules.case_spec import answers_to_json
from review.rules.state_machine import Policy
from tests.review.factories import (
    PASSWORD,
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    open_case,
    rejection,
    turn_at,
)
from tests.review.pages import HTMX, refused_page
from tests.site.test_second_factor import code as shown_code
from tests.site.test_second_factor import enrol

pytestmark = pytest.mark.django_db

SIGNED = Policy(sign_with_password=True)


def test_each_signature_states_its_meaning(ana: User, bo: User, chen: User, dina: User) -> None:
    case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, approval())
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


def test_a_review_keeps_the_name_its_author_had(ana: User, adela: User, client: Any) -> None:
    case = case_in_secondary(ana)
    User.objects.filter(pk=ana.pk).update(last_name="Married")
    assert Review.objects.get().signed_as == "Ana Alves (ana)"
    client.force_login(adela)
    page = client.get(reverse("review:history", args=[case.pk])).content.decode()
    assert "Ana Alves (ana)" in page
    assert "signed as a review" in page


def test_an_account_without_a_name_signs_with_its_username(db: None) -> None:
    nameless = account("nameless")
    case_in_secondary(nameless)
    assert Review.objects.get().signed_as == "nameless"


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD.upper(), PASSWORD + " "])
def test_a_wrong_password_submits_nothing(ana: User, password: str) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    assert assignment.token is not None
    before = Event.objects.count()
    with pytest.raises(errors.SignatureRefused):
        services.submit(turn_at(ana, assignment), assignment.token, approval(), password=password)
    assert (Review.objects.count(), Event.objects.count()) == (0, before)
    review = services.submit(turn_at(ana, assignment), assignment.token, approval(), password=PASSWORD)
    assert review.signed_as == "Ana Alves (ana)"


def test_a_password_that_is_not_required_is_ignored(ana: User) -> None:
    open_case()
    assignment = claim(ana)
    assert assignment.token is not None
    assert services.submit(turn_at(ana, assignment), assignment.token, approval(), password="anything")


def posted_approval(assignment: Any, password: str) -> dict[str, str]:
    """The form data of the page, filled in to approve."""
    answers = {f"question.{key}": answer.value for key, answer in approval().questions.items()}
    rubrics = {f"rubric.{key}": finding.value for key, finding in approval().rubrics.items()}
    return {"token": str(assignment.token), "verdict": "approve", "password": password, **answers, **rubrics}


def test_the_page_asks_for_the_password(ana: User, client: Any) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    address = reverse("review:case", args=[assignment.pk])
    submit_url = reverse("review:submit", args=[assignment.pk])
    page = client.get(address).content.decode()
    assert 'name="password"' in page
    assert "Ana Alves (ana)" in page
    refused = client.post(submit_url, {**posted_approval(assignment, "wrong"), "reason": "What I had typed."})
    html = refused_page(client, refused).content.decode()
    assert "The password is incorrect" in html
    assert "What I had typed." in html, "typed text is not lost"
    field = html.split('name="password"')[1].split(">")[0]
    assert "wrong" not in field
    assert 'aria-invalid="true"' in field
    assert client.post(submit_url, posted_approval(assignment, PASSWORD)).status_code == 302
    assert Review.objects.get().meaning == "review"


def test_a_draft_does_not_store_the_password(ana: User, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    secret = "this must not be stored"
    with caplog.at_level(logging.DEBUG):
        client.post(
            reverse("review:draft", args=[assignment.pk]), {**posted_approval(assignment, secret), "revision": "0"}
        )
        client.post(reverse("review:submit", args=[assignment.pk]), posted_approval(assignment, secret))
    rows = [json.dumps(row, default=str) for model in (Draft, Event, AccessAttempt) for row in model.objects.values()]
    assert Draft.objects.exists()
    assert AccessAttempt.objects.exists()
    assert secret not in "".join(rows)
    assert secret not in caplog.text


def test_password_guesses_are_counted_and_locked_out(ana: User, client: Any) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    submit_url = reverse("review:submit", args=[assignment.pk])
    answers = [
        client.post(submit_url, {**posted_approval(assignment, "guess"), "revision": revision}).status_code
        for revision in range(settings.AXES_FAILURE_LIMIT)
    ]
    assert answers[:-1] == [302] * (settings.AXES_FAILURE_LIMIT - 1)
    assert answers[-1] == 429
    assert client.post(submit_url, posted_approval(assignment, PASSWORD)).status_code == 429, "not even the right one"
    assert not Review.objects.exists()


def test_a_locked_out_physician_can_submit_where_no_password_is_required(ana: User, client: Any) -> None:
    open_case(policy=SIGNED, number=1)
    assignment = claim(ana)
    client.force_login(ana)
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post(reverse("review:submit", args=[assignment.pk]), posted_approval(assignment, "guess"))
    assert assignment.token is not None
    claims.release(ana, assignment.pk, assignment.token)
    open_case(number=2)
    other = claim(ana)
    assert other.case.title == "Case 2"
    client.post(reverse("review:submit", args=[other.pk]), posted_approval(other, ""))
    assert Review.objects.filter(assignment=other).exists()


def test_the_api_asks_for_the_password(ana: User, client: Any) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    address = reverse("api:assignment-submit", args=[assignment.pk])
    body = {"token": str(assignment.token), "answers": answers_to_json(approval())}

    def post_submit(**more: str) -> Any:
        return client.post(address, {**body, **more}, content_type="application/json")

    refused = post_submit()
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mhb:signature-refused")
    assert post_submit(password="guess").status_code == 403
    assert AccessAttempt.objects.get().failures_since_start == 2
    done = post_submit(password=PASSWORD)
    assert done.status_code == 201, done.content
    assert (done.json()["signed_as"], done.json()["meaning"]) == ("Ana Alves (ana)", "review")


def test_every_phase_is_signed(ana: User, bo: User) -> None:
    case = open_case(policy=SIGNED)
    for physician, answers in ((ana, approval()), (bo, approval()), (bo, approval())):
        assignment = claim(physician)
        assert assignment.token is not None
        with pytest.raises(errors.SignatureRefused):
            services.submit(turn_at(physician, assignment), assignment.token, rejection())
        services.submit(turn_at(physician, assignment), assignment.token, answers, password=PASSWORD)
    case.refresh_from_db()
    assert case.state == "approved"


# With a second factor -----------------------------------------------------------------------------

BY_CODE = Policy(sign_with_second_factor=True)


@pytest.fixture
def code_assignment(ana: User) -> Any:
    """Ana's assignment of a case that she signs with a code; her authenticator is set up."""
    open_case(policy=BY_CODE)
    enrol(ana)
    return claim(ana)


def test_a_code_signs_once(ana: User, code_assignment: Any) -> None:
    def submit(code: str, answers: Any = None) -> Any:
        return services.submit(turn_at(ana, code_assignment), code_assignment.token, answers or approval(), code=code)

    for wrong in ("", "000000", PASSWORD):
        with pytest.raises(errors.CodeRefused):
            submit(wrong)
    assert not Review.objects.exists()
    now = shown_code()
    with pytest.raises(errors.Incomplete):
        submit(now, approval(verdict=""))
    assert submit(now).meaning == "review", "an incomplete submit does not use up the code"
    open_case(2, policy=BY_CODE)
    other = claim(ana)
    assert other.token is not None
    with pytest.raises(errors.CodeRefused):
        services.submit(turn_at(ana, other), other.token, approval(), code=now)


def test_recovery_codes_do_not_sign(ana: User, code_assignment: Any) -> None:
    codes = RecoveryCodes.activate(ana).generate_codes()
    with pytest.raises(errors.CodeRefused):
        services.submit(turn_at(ana, code_assignment), code_assignment.token, approval(), code=codes[0])


def test_a_physician_without_a_second_factor_is_told_where_to_set_it_up(ana: User, client: Any) -> None:
    open_case(policy=BY_CODE)
    assignment = claim(ana)
    client.force_login(ana)
    page = client.get(reverse("review:case", args=[assignment.pk])).content.decode()
    assert 'name="code"' not in page
    assert f'<a href="{reverse("mfa_index")}">Set up in your account</a>' in page
    submit_url = reverse("review:submit", args=[assignment.pk])
    typed = {**posted_approval(assignment, ""), "reason": "What I had typed."}
    for revision in range(settings.AXES_FAILURE_LIMIT + 1):
        refused = client.post(submit_url, {**typed, "revision": revision})
        assert refused.status_code == 302, "this does not count as a guess"
    assert "Set up in your account" in refused_page(client, refused).content.decode()
    assert Draft.objects.get().answers["reason"] == "What I had typed."
    assert not Review.objects.exists()


def test_the_page_asks_for_the_code(ana: User, code_assignment: Any, client: Any) -> None:
    client.force_login(ana)
    submit_url = reverse("review:submit", args=[code_assignment.pk])
    page = client.get(reverse("review:case", args=[code_assignment.pk])).content.decode()
    assert 'name="code"' in page
    assert 'hx-params="not password,code,do"' in page, "neither is sent with a draft"
    refused = client.post(submit_url, {**posted_approval(code_assignment, ""), "code": "000000"})
    shown = refused_page(client, refused).content.decode()
    assert 'id="code-error"' in shown
    assert 'value="000000"' not in shown
    assert AccessAttempt.objects.get().failures_since_start == 1
    assert client.post(submit_url, {**posted_approval(code_assignment, ""), "code": shown_code()}).status_code == 302
    assert Review.objects.exists()


def test_the_api_accepts_a_code(ana: User, code_assignment: Any, client: Any) -> None:
    client.force_login(ana)
    address = reverse("api:assignment-submit", args=[code_assignment.pk])
    body = {"token": str(code_assignment.token), "answers": answers_to_json(approval())}
    refused = client.post(address, body, content_type="application/json")
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mhb:code-refused")
    assert client.post(address, {**body, "code": shown_code()}, content_type="application/json").status_code == 201


# A refused confirmation ---------------------------------------------------------------------------


@pytest.fixture
def confirmation(ana: User, bo: User) -> Any:
    """Bo's assignment of a case signed by password, in the phase that confirms the blind answer."""
    open_case(policy=SIGNED)
    for physician in (ana, bo):
        assignment = claim(physician)
        assert assignment.token is not None
        services.submit(turn_at(physician, assignment), assignment.token, approval(), password=PASSWORD)
    assignment.refresh_from_db()
    return assignment


def test_a_wrong_password_for_a_confirmation_leaves_the_draft(bo: User, confirmation: Any, client: Any) -> None:
    services.save_draft(turn_at(bo, confirmation), confirmation.token, rejection("Second thoughts."), revision=0)
    client.force_login(bo)
    submit_url = reverse("review:submit", args=[confirmation.pk])
    typed = {**posted_approval(confirmation, "wrong"), "verdict": "reject", "reason": "Second thoughts."}
    refused = client.post(submit_url, {**typed, "change_reason": "I see it now.", "revision": "1"})
    page = refused_page(client, refused).content.decode()
    assert "The password is incorrect" in page
    assert "Second thoughts." in page
    assert Draft.objects.get(phase="confirm").answers["reason"] == "Second thoughts."
    kept = client.post(submit_url, {**posted_approval(confirmation, PASSWORD), "revision": "2"})
    assert kept.status_code == 302
    assert Review.objects.get(phase="confirm").verdict == "approve"


def test_retyping_the_password_does_not_replace_another_tabs_draft(bo: User, confirmation: Any, client: Any) -> None:
    """The page also saves while the password is typed: over the revision that it was made from."""
    client.force_login(bo)
    services.save_draft(turn_at(bo, confirmation), confirmation.token, rejection("From the other window."), revision=0)
    submit_url = reverse("review:submit", args=[confirmation.pk])
    refused = client.post(submit_url, {**posted_approval(confirmation, "wrong"), "revision": "0"})
    assert refused.status_code == 403
    html = refused.content.decode()
    assert re.search(r'<input type="hidden" name="revision"\s+value="0">', html)
    assert 'name="over" value="1"' in html
    draft = reverse("review:draft", args=[confirmation.pk])
    assert client.post(draft, {**posted_approval(confirmation, ""), "revision": "0"}, headers=HTMX).status_code == 409
    assert Draft.objects.get(phase="confirm").answers["reason"] == "From the other window."
    assert client.post(draft, {**posted_approval(confirmation, ""), "revision": "0", "over": "1"}).status_code == 302
    assert Draft.objects.get(phase="confirm").answers["verdict"] == "approve", "overwriting was chosen"
