"""Signing off: name, time and meaning stay with a review; where the policy asks for the password, nothing goes without it."""

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
)
from tests.review.pages import HTMX
from tests.site.test_second_factor import code as shown_code
from tests.site.test_second_factor import enrol

pytestmark = pytest.mark.django_db

SIGNED = Policy(sign_with_password=True)


def test_what_each_signature_means(ana: User, bo: User, chen: User, dina: User) -> None:
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


def test_the_name_is_the_one_of_then(ana: User, adela: User, client: Any) -> None:
    case = case_in_secondary(ana)
    User.objects.filter(pk=ana.pk).update(last_name="Married")
    assert Review.objects.get().signed_as == "Ana Alves (ana)"
    client.force_login(adela)
    page = client.get(reverse("review:history", args=[case.pk])).content.decode()
    assert "Ana Alves (ana)" in page
    assert "signed as a review" in page


def test_an_account_without_a_name_signs_by_its_own(db: None) -> None:
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
        services.submit(ana, assignment.pk, assignment.token, approval(), password=password)
    assert (Review.objects.count(), Event.objects.count()) == (0, before)
    review = services.submit(ana, assignment.pk, assignment.token, approval(), password=PASSWORD)
    assert review.signed_as == "Ana Alves (ana)"


def test_where_none_is_asked_none_is_looked_at(ana: User) -> None:
    open_case()
    assignment = claim(ana)
    assert assignment.token is not None
    assert services.submit(ana, assignment.pk, assignment.token, approval(), password="anything")


def posted(assignment: Any, password: str) -> dict[str, str]:
    """The form of the page, filled in in favour."""
    answers = {f"question.{key}": answer.value for key, answer in approval().questions.items()}
    rubrics = {f"rubric.{key}": finding.value for key, finding in approval().rubrics.items()}
    return {"token": str(assignment.token), "verdict": "approve", "password": password, **answers, **rubrics}


def test_the_page(ana: User, client: Any) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    address = reverse("review:case", args=[assignment.pk])
    submit = reverse("review:submit", args=[assignment.pk])
    assert 'name="password"' in client.get(address).content.decode()
    refused = client.post(submit, {**posted(assignment, "wrong"), "reason": "What I had typed."})
    html = refused.content.decode()
    assert refused.status_code == 403
    assert "The password is incorrect" in html
    assert "What I had typed." in html, "what was typed is not lost"
    assert "wrong" not in html.split('name="password"')[1].split(">")[0]
    assert client.post(submit, posted(assignment, PASSWORD)).status_code == 302
    assert Review.objects.get().meaning == "review"


def test_a_draft_keeps_no_password(ana: User, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
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
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    submit = reverse("review:submit", args=[assignment.pk])
    answers = [client.post(submit, posted(assignment, "guess")).status_code for _ in range(settings.AXES_FAILURE_LIMIT)]
    assert answers[:-1] == [403] * (settings.AXES_FAILURE_LIMIT - 1)
    assert answers[-1] == 429
    assert client.post(submit, posted(assignment, PASSWORD)).status_code == 429, "not even the right one"
    assert not Review.objects.exists()


def test_who_is_locked_out_can_submit_where_no_password_is_asked(ana: User, client: Any) -> None:
    open_case(policy=SIGNED, number=1)
    assignment = claim(ana)
    client.force_login(ana)
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post(reverse("review:submit", args=[assignment.pk]), posted(assignment, "guess"))
    assert assignment.token is not None
    claims.release(ana, assignment.pk, assignment.token)
    open_case(number=2)
    other = claim(ana)
    assert other.case.title == "Case 2"
    assert client.post(reverse("review:submit", args=[other.pk]), posted(other, "")).status_code == 302


def test_the_api(ana: User, client: Any) -> None:
    open_case(policy=SIGNED)
    assignment = claim(ana)
    client.force_login(ana)
    address = reverse("api:assignment-submit", args=[assignment.pk])
    body = {"token": str(assignment.token), "answers": answers_to_json(approval())}

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
    case = open_case(policy=SIGNED)
    for physician, answers in ((ana, approval()), (bo, approval()), (bo, approval())):
        assignment = claim(physician)
        assert assignment.token is not None
        with pytest.raises(errors.SignatureRefused):
            services.submit(physician, assignment.pk, assignment.token, rejection())
        services.submit(physician, assignment.pk, assignment.token, answers, password=PASSWORD)
    case.refresh_from_db()
    assert case.state == "approved"


# With a second factor -------------------------------------------------------------------------------------------------

BY_CODE = Policy(sign_with_second_factor=True)


@pytest.fixture
def coded(ana: User) -> Any:
    """Ana's case that is signed with a code, and her app."""
    open_case(policy=BY_CODE)
    enrol(ana)
    return claim(ana)


def test_a_code_signs_once(ana: User, coded: Any) -> None:
    def submit(code: str, answers: Any = None) -> Any:
        return services.submit(ana, coded.pk, coded.token, answers or approval(), code=code)

    for wrong in ("", "000000", PASSWORD):
        with pytest.raises(errors.CodeRefused):
            submit(wrong)
    assert not Review.objects.exists()
    now = shown_code()
    with pytest.raises(errors.Incomplete):
        submit(now, approval(verdict=""))
    assert submit(now).meaning == "review", "what was not complete has used up no code"
    open_case(2, policy=BY_CODE)
    other = claim(ana)
    assert other.token is not None
    with pytest.raises(errors.CodeRefused):
        services.submit(ana, other.pk, other.token, approval(), code=now)


def test_recovery_codes_do_not_sign(ana: User, coded: Any) -> None:
    codes = RecoveryCodes.activate(ana).generate_codes()
    with pytest.raises(errors.CodeRefused):
        services.submit(ana, coded.pk, coded.token, approval(), code=codes[0])


def test_who_has_none_is_told_where_to_set_it_up(ana: User, client: Any) -> None:
    open_case(policy=BY_CODE)
    assignment = claim(ana)
    client.force_login(ana)
    page = client.get(reverse("review:case", args=[assignment.pk])).content.decode()
    assert 'name="code"' not in page
    assert f'<a href="{reverse("mfa_index")}">Set up in your account</a>' in page
    submit = reverse("review:submit", args=[assignment.pk])
    for _ in range(settings.AXES_FAILURE_LIMIT + 1):
        refused = client.post(submit, {**posted(assignment, ""), "reason": "What I had typed."})
        assert refused.status_code == 403, "it is no guess"
    assert "Set up in your account" in refused.content.decode()
    assert Draft.objects.get().answers["reason"] == "What I had typed."
    assert not Review.objects.exists()


def test_the_page_that_takes_a_code(ana: User, coded: Any, client: Any) -> None:
    client.force_login(ana)
    submit = reverse("review:submit", args=[coded.pk])
    page = client.get(reverse("review:case", args=[coded.pk])).content.decode()
    assert 'name="code"' in page
    assert 'hx-params="not password,code,do"' in page, "neither is sent along with a draft"
    refused = client.post(submit, {**posted(coded, ""), "code": "000000"})
    assert refused.status_code == 403
    assert 'id="code-error"' in refused.content.decode()
    assert 'value="000000"' not in refused.content.decode()
    assert AccessAttempt.objects.get().failures_since_start == 1
    assert client.post(submit, {**posted(coded, ""), "code": shown_code()}).status_code == 302
    assert Review.objects.exists()


def test_the_api_takes_a_code(ana: User, coded: Any, client: Any) -> None:
    client.force_login(ana)
    address = reverse("api:assignment-submit", args=[coded.pk])
    body = {"token": str(coded.token), "answers": answers_to_json(approval())}
    refused = client.post(address, body, content_type="application/json")
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mhb:code-refused")
    assert client.post(address, {**body, "code": shown_code()}, content_type="application/json").status_code == 201


# 'Keep mine' that is sent back ----------------------------------------------------------------------------------------


@pytest.fixture
def confirming(ana: User, bo: User) -> Any:
    """Bo's assignment of a case that is signed with the password, where the first answer is to be confirmed."""
    open_case(policy=SIGNED)
    for physician in (ana, bo):
        held = claim(physician)
        assert held.token is not None
        services.submit(physician, held.pk, held.token, approval(), password=PASSWORD)
    held.refresh_from_db()
    return held


def keep_mine(client: Any, held: Any, password: str, **more: str) -> Any:
    return client.post(reverse("review:submit", args=[held.pk]), {**posted(held, password), "keep": "1", **more})


def test_a_wrong_password_under_a_kept_answer_leaves_what_was_drafted(bo: User, confirming: Any, client: Any) -> None:
    services.save_draft(bo, confirming.pk, confirming.token, rejection("Second thoughts."), revision=0)
    client.force_login(bo)
    refused = keep_mine(client, confirming, "wrong", verdict="reject", reason="Second thoughts.", revision="1")
    assert refused.status_code == 403
    assert "Second thoughts." in refused.content.decode()
    assert Draft.objects.get(phase="confirm").answers["reason"] == "Second thoughts."
    assert keep_mine(client, confirming, PASSWORD, verdict="reject", revision="2").status_code == 302
    assert Review.objects.get(phase="confirm").verdict == "approve"


def test_nor_does_typing_the_password_again_replace_what_another_window_drafted(
    bo: User, confirming: Any, client: Any
) -> None:
    """The page saves itself as one types, the password included: with the version that it was made from, not the newest."""
    client.force_login(bo)
    services.save_draft(bo, confirming.pk, confirming.token, rejection("From the other window."), revision=0)
    refused = keep_mine(client, confirming, "wrong", revision="0")
    assert refused.status_code == 403
    html = refused.content.decode()
    assert re.search(r'<input type="hidden" name="revision"\s+value="0">', html)
    assert 'name="over" value="1"' in html
    draft = reverse("review:draft", args=[confirming.pk])
    assert client.post(draft, {**posted(confirming, ""), "revision": "0"}, headers=HTMX).status_code == 409
    assert Draft.objects.get(phase="confirm").answers["reason"] == "From the other window."
    assert client.post(draft, {**posted(confirming, ""), "revision": "0", "over": "1"}).status_code == 302
    assert Draft.objects.get(phase="confirm").answers["verdict"] == "approve", "chosen"
