"""User names are normalized everywhere: in accounts, at sign-in and in mentions."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from review.discussion import remarks
from review.models import Notice, User
from review.models.usernames import normalize_username
from tests.api.conftest import Client as ApiClient
from tests.review.factories import PASSWORD, account, claim, open_case

pytestmark = pytest.mark.django_db

FORMS = ["sec1", "SEC1", "Sec1", "ｓｅｃ１", "ＳＥＣ１", "ſec1"]  # the last one begins with a long s


@pytest.mark.parametrize("name", ["Straße", "ＡＢＣ", "ﬁn", "İz", "吴菲", "Ꭰ"])
def test_normalizing_a_normalized_name_changes_nothing(name: str) -> None:
    assert normalize_username(normalize_username(name)) == normalize_username(name)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_name_is_the_same_account(name: str) -> None:
    stored = account("Sec1")
    assert stored.username == "sec1"
    assert User.objects.get(username=name) == stored
    with pytest.raises(IntegrityError), transaction.atomic():
        account(name)


def test_the_database_itself_refuses_an_upper_case_duplicate() -> None:
    account("sec1")
    columns = {str(field.column) for field in User._meta.concrete_fields} - {"id", "username"}
    names = ", ".join(sorted(columns))
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO review_user (username, {names}) SELECT 'SEC1', {names} FROM review_user")


def test_the_page_creates_no_second_account_under_another_form_of_the_name(adela: User) -> None:
    account("sec1")
    browser = Client()
    browser.force_login(adela)
    fields = {"username": "ＳＥＣ１", "role": "physician", "password": "a-quiet-reading-room-7", "languages": ""}
    answer = browser.post(reverse("review:person-new"), fields)
    assert answer.status_code == 422
    assert "The account sec1 exists already." in answer.content.decode()
    assert "Constraint" not in answer.content.decode()
    stored = User.objects.get(username="sec1")
    assert f'href="{reverse("review:person", args=[stored.pk])}"' in answer.content.decode()
    browser.post(reverse("review:person-new"), {**fields, "username": "ＳＥＣ２"})
    assert User.objects.get(username="sec2").username == "sec2"
    # 150 characters, each of which becomes 18 when normalized.
    assert browser.post(reverse("review:person-new"), {**fields, "username": "\ufdfa" * 150}).status_code == 422


@pytest.mark.parametrize("name", FORMS)
def test_tokens_and_mentions_use_the_normalized_name(name: str, ana: User) -> None:
    sec = account("sec1")
    answer = ApiClient().post(reverse("api:token"), {"username": name, "password": PASSWORD})
    assert answer.status_code == 201
    open_case()
    case = claim(ana).case
    User.objects.filter(pk=sec.pk).update(role="admin")  # admins may know of every case
    remarks.remark(ana, case.pk, f"What does @{name} say?")
    assert [notice.user for notice in Notice.objects.all()] == [sec]
