"""A person's names go; their reviews and the audit trail of them stay whole."""

from typing import Any

import pytest
from axes.models import AccessLog
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse

from review.assignments import claims, reassignment
from review.assignments.services import save_draft
from review.audit import verification
from review.audit.verification import FaultCode
from review.errors import NotAllowed
from review.models import Audit, Delivery, PersonEvent, Review, User
from review.people import accounts
from review.people.anonymise import anonymise
from review.rules.permissions import OPERATOR, UserRole
from review.rules.state_machine import Role
from tests.review.audit.tampering import sql, unprotected
from tests.review.factories import (
    PASSWORD,
    account,
    approval,
    case_in_secondary,
    claim,
    claim_and_submit,
    open_case,
    turn_at,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def faults() -> list[FaultCode]:
    return [fault.what for fault in verification.check(Audit())]


def everything() -> str:
    """All rows of our own and of sign-in's tables, as text."""
    tables = [name for name in connection.introspection.table_names() if not name.startswith(("django_", "auth_"))]
    with connection.cursor() as cursor:
        rows = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            rows += cursor.fetchall()
    return str(rows).lower()


def test_no_name_is_left_and_the_trail_verifies(adela: User, bo: User) -> None:
    nia = account("nia", first_name="Niamara", last_name="Obiwole", email="nia@hospital.example")
    accounts.edit_person(nia.pk, {"last_name": "Obiwole-Reyes"}, actor=adela)
    Client().post(reverse("account_login"), {"login": "nia", "password": PASSWORD})
    Client().post(reverse("account_login"), {"login": "Nia@hospital.example", "password": PASSWORD})
    case_in_secondary(nia)
    claim_and_submit(bo, approval())
    assert "niamara" in everything()
    assert "obiwole" in everything()

    anonymise(nia.pk, actor=adela)
    assert [name for name in ("niamara", "obiwole", "nia@hospital", "'nia'") if name in everything()] == []
    assert faults() == []
    assert AccessLog.objects.filter(username="nia").count() == 0
    assert set(Review.objects.filter(physician=nia).values_list("signed_as", flat=True)) == {f"anonymous-{nia.pk}"}
    nia.refresh_from_db()
    assert (nia.is_active, nia.has_usable_password()) == (False, False)
    anonymise(nia.pk, actor=adela)  # twice is once
    assert faults() == []


def test_what_was_altered_before_or_is_afterwards_stays_a_fault(adela: User) -> None:
    nia = account("nia", first_name="Niamara", last_name="Obiwole")
    case_in_secondary(nia)
    case_in_secondary(nia, number=2)
    first, second = Review.objects.order_by("pk").values_list("pk", flat=True)
    with unprotected("review_review"):
        sql("UPDATE review_review SET meaning = 'adjudication' WHERE id = %s", first)
    anonymise(nia.pk, actor=adela)
    assert faults() == [FaultCode.REVIEW_ALTERED]
    sql("UPDATE review_review SET signed_as = 'Somebody Else' WHERE id = %s", second)
    assert faults() == [FaultCode.REVIEW_ALTERED] * 2


def test_nothing_but_the_name_under_a_review_can_be_changed(ana: User) -> None:
    case_in_secondary(ana)
    for column in (field.column for field in Review._meta.concrete_fields if field.name != "signed_as"):
        with pytest.raises(DatabaseError), transaction.atomic():
            sql(f"UPDATE review_review SET {column} = {column}")


def test_nobody_anonymises_themselves_or_an_account_with_more_rights(adela: User) -> None:
    keeper = account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)
    for person in (adela, keeper):
        with pytest.raises(NotAllowed):
            anonymise(person.pk, actor=adela)
    with pytest.raises(NotAllowed):
        anonymise(keeper.pk, actor=OPERATOR)
    keeper.refresh_from_db()
    assert keeper.is_active


def test_people_download_what_is_stored_about_them(ana: User, bo: User, client: Client) -> None:
    client.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    case_in_secondary(ana)
    claim_and_submit(bo, approval())
    data = client.post(reverse("own-data")).json()
    assert data["account"]["username"] == "ana"
    assert [review["verdict"] for review in data["reviews"]] == ["approve"]  # and not the other physician's
    assert len(data["sign_ins"]) == len(data["sessions"]) == 1
    assert PersonEvent.objects.filter(person=ana, kind=PersonEvent.Kind.COPIED).count() == 1


def test_a_download_holds_unfinished_work_and_reaches_people_of_any_name(ana: User, client: Client) -> None:
    open_case(1)
    held = claim(ana)
    assert held.token is not None
    save_draft(turn_at(ana, held), held.token, approval(), revision=0)
    User.objects.filter(pk=ana.pk).update(username="王医师")
    client.force_login(ana)
    response = client.post(reverse("own-data"))
    assert response["Content-Disposition"].startswith("attachment; filename*=utf-8")
    assert [draft["phase"] for draft in response.json()["drafts"]] == ["commit"]


def test_who_leaves_keeps_no_case_from_others(ana: User, bo: User, adela: User, settings: Any) -> None:
    settings.MHB_EMAILS = True
    User.objects.filter(pk=ana.pk).update(email="ana@hospital.example")
    case = open_case(1)
    reassignment.reassign(case.pk, Role.PRIMARY, to=User.objects.get(pk=ana.pk), actor=adela)
    assert Delivery.objects.filter(person=ana).count() == 1
    assert claims.claim_next(bo) is None
    anonymise(ana.pk, actor=adela)
    assert claim(bo).case == case
    assert not Delivery.objects.filter(person=ana).exists()
    assert faults() == []


def test_djangos_admin_remembers_no_name(adela: User) -> None:
    nia = account("nia", first_name="Niamara", last_name="Obiwole", hospital="North End")
    accounts.edit_person(nia.pk, {"hospital": "South End"}, actor=adela)
    kind = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(
        user=adela, content_type=kind, object_id=str(nia.pk), object_repr=str(nia), action_flag=CHANGE
    )
    anonymise(nia.pk, actor=adela)
    assert LogEntry.objects.get().object_repr == f"anonymous-{nia.pk}"
    assert "end" not in str(PersonEvent.objects.get(kind=PersonEvent.Kind.EDITED).data).lower()


def test_opening_a_case_is_an_event(ana: User, adela: User, client: Client) -> None:
    case = case_in_secondary(ana)
    client.force_login(account("aud", UserRole.AUDITOR))
    assert client.get(reverse("review:history", args=[case.pk])).status_code == 200
    assert client.get(reverse("api:case", args=[case.pk])).status_code == 200
    client.force_login(ana)
    review = Review.objects.get()
    assert client.get(reverse("review:mine-detail", args=[review.pk])).status_code == 200
    read = PersonEvent.objects.filter(kind=PersonEvent.Kind.READ).order_by("sequence")
    assert [(event.actor.username, event.data) for event in read if event.actor] == [
        ("aud", {"case": case.pk}),  # once an hour, however often and where
        ("ana", {"case": case.pk}),
    ]
