"""What people and programs are told: with what happened or not at all, signed, repeated, ended."""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.jobs import life_cycle
from generation.llm.simulator.server import run_in_background
from generation.models import Batch, Job, Source
from generation.notifications import sending, services
from mhb_site.server.sweeping import sweep
from mhb_site.sign_in import language
from review.assignments import digest, reassignment
from review.common import notifications
from review.discussion import remarks
from review.models import Delivery, Occasion, User, Webhook
from review.people import accounts
from tests.api.conftest import Api, api
from tests.engine import Manage
from tests.engine import no_long_waits as no_long_waits
from tests.generation.llm.helpers import app_of
from tests.review.factories import claim, open_case

pytestmark = pytest.mark.django_db
__all__ = ["api"]
SECRET = "a-secret-of-tests"
Received = list[tuple[Mapping[str, str], bytes]]


@pytest.fixture
def emails(settings: Any, ana: User, adela: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "HOUR", 24)  # a sweep of the morning would write the digest too
    settings.MHB_EMAILS = True
    settings.DEFAULT_FROM_EMAIL = "mhb@example.org"
    settings.MHB_SITE_URL = "https://mhb.example.org"
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    User.objects.filter(pk=adela.pk).update(email="adela@example.org")
    ana.refresh_from_db()
    adela.refresh_from_db()


@pytest.fixture
def statuses() -> list[int]:
    """What the program answers, in turn; 200 when none is left."""
    return []


@pytest.fixture
def charsets() -> list[str]:
    """The charsets that the program names, the last first; none when none is left."""
    return []


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch, statuses: list[int], charsets: list[str]) -> Iterator[Received]:
    """The requests that a webhook named `hook`, which asks for everything, has received."""
    monkeypatch.setenv("MHB_KEY_HOOK", SECRET)
    requests: Received = []

    async def answer(request: web.Request) -> web.Response:
        requests.append((request.headers, await request.read()))
        status = statuses.pop(0) if statuses else 200
        headers = {
            "Location": "/elsewhere",
            "Content-Type": f"text/plain; charset={charsets.pop() if charsets else ''}",
        }
        return web.Response(status=status, headers=headers, body=b"x")

    with run_in_background(app_of(answer)) as url:
        everything = [value for value, _label in services.OCCASIONS]
        fields = {"name": "hook", "url": f"{url}/chat/completions", "secret_env": "MHB_KEY_HOOK"}
        services.save_webhook(Webhook(), **fields, occasions=everything)
        yield requests


def due_again() -> None:
    Delivery.objects.filter(status="waiting").update(next_at=timezone.now())


def mention(author: User, person: User) -> None:
    open_case(1)
    held = claim(person)
    remarks.remark(author, held.case_id, f"Frau Beispiel hustet. @{person.username}, what do you think?")


def job_of(person: User, **fields: Any) -> Job:
    source = Source.objects.create(
        name="own", format="healthbench", label="Own", licence="MIT", created_at=timezone.now()
    )
    return Batch.objects.create(benchmark="mhb", source=source, created_by=person, created_at=timezone.now(), **fields)


def test_a_webhook_is_told_by_a_signed_request_without_text_of_the_case(received: Received, adela: User, ana: User):
    mention(adela, ana)
    assert sending.send_due() == 1
    [(headers, body)] = received
    stamp = headers["X-MHB-Timestamp"]
    expected = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["X-MHB-Signature"] == f"sha256={expected}"
    told_of = json.loads(body)
    assert (told_of["event"], told_of["url"]) == ("mentioned", "")
    assert told_of["id"] == headers["X-MHB-Delivery"]
    assert set(told_of) == {"id", "event", "at", "url"}
    assert b"Beispiel" not in body
    assert sending.send_due() == 0


@pytest.mark.both
def test_after_an_error_it_is_sent_again_and_after_a_day_given_up(received: Received, statuses: list[int]):
    statuses += [500, 302, 200, 500]
    notifications.tell(Occasion.FROZEN, release="spring v1")
    waits = []
    for _ in range(2):
        assert sending.send_due() == 1
        row = Delivery.objects.get()
        waits.append(row.next_at - timezone.now())
        assert (row.status, bool(row.error)) == ("waiting", True)
        assert sending.send_due() == 0  # it waits
        due_again()
    assert waits[1] > waits[0] > timedelta(seconds=1)
    sending.send_due()
    assert (Delivery.objects.get().status, Delivery.objects.get().tries) == ("sent", 3)
    assert len({headers["X-MHB-Delivery"] for headers, _body in received}) == 1, "programs can tell repeats"
    notifications.tell(Occasion.FROZEN, release="spring v2")
    Delivery.objects.filter(status="waiting").update(created_at=timezone.now() - timedelta(days=1))
    sending.send_due()
    assert Delivery.objects.latest("pk").status == "given-up"


def test_one_dead_program_holds_up_nothing_else(received: Received, statuses: list[int], emails: None, ana: User):
    for version in (1, 2, 3):
        notifications.tell(Occasion.FROZEN, [ana], release=f"spring v{version}")
    statuses += [500] * 9
    sending.send_due()
    assert len(received) == 1
    assert len(mail.outbox) == 3


def test_an_answer_that_no_codec_reads_is_an_error_like_another(
    received: Received, statuses: list[int], charsets: list[str]
):
    hook = Webhook.objects.get()
    for charset in ("hex", "bz2", "zlib", "idna", "undefined", "unknown"):
        statuses.append(500)
        charsets.append(charset)
        row = services.test_webhook(hook)
        assert (row.status, "x" in row.error) == ("given-up", True)


def test_an_address_to_which_nothing_can_be_sent_holds_up_no_other(emails: None, ana: User, adela: User):
    User.objects.filter(pk=ana.pk).update(email=f"ana@{'é' * 60}.example")  # valid, but not in ASCII
    notifications.tell(Occasion.FROZEN, [ana, adela], release="spring v1")
    assert sending.send_due() == 2
    assert [sent.to for sent in mail.outbox] == [["adela@example.org"]]
    [row] = Delivery.objects.filter(status="waiting")
    assert row.next_at > timezone.now()
    assert row.error == "UnicodeError"


def test_a_webhook_gets_what_it_asks_for_and_nothing_while_switched_off(received: Received):
    hook = Webhook.objects.get()
    services.save_webhook(hook, occasions=[Occasion.FROZEN])
    notifications.tell(Occasion.DISSENT, case=1)
    assert not Delivery.objects.exists()
    notifications.tell(Occasion.FROZEN, release="spring v1")
    services.save_webhook(hook, active=False)
    notifications.tell(Occasion.FROZEN, release="spring v2")
    assert sending.send_due() == 0
    assert list(Delivery.objects.values_list("status", flat=True)) == ["given-up"]
    assert not received


def test_nothing_is_told_of_what_was_rolled_back(received: Received, emails: None, adela: User, ana: User):
    with transaction.atomic():
        mention(adela, ana)
        assert Delivery.objects.count() == 2
        transaction.set_rollback(True)
    assert sending.send_due() == 0
    assert not received
    assert not mail.outbox


def test_a_missing_secret_is_named_and_the_message_waits(received: Received, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MHB_KEY_HOOK")
    notifications.tell(Occasion.FROZEN, release="spring v1")
    sending.send_due()
    row = Delivery.objects.get()
    assert (row.status, "MHB_KEY_HOOK" in row.error) == ("waiting", True)
    assert not received


def test_a_person_is_e_mailed_until_they_switch_it_off(client: Client, emails: None, adela: User, ana: User):
    mention(adela, ana)
    sending.send_due()
    [sent] = mail.outbox
    assert sent.to == ["ana@example.org"]
    assert "https://mhb.example.org/review/notices/" in sent.body
    assert "Beispiel" not in sent.body
    client.force_login(ana)
    choices = [{"occasions": ["assigned"]}, {"occasions": ["mentioned"], "paused": "on"}, {"occasions": ["mentioned"]}]
    counts = []
    for choice in choices:
        assert client.post(reverse("review:notices"), choice).status_code == 302
        held = ana.assignments.get()
        remarks.remark(adela, held.case_id, "@ana, again")
        counts.append(Delivery.objects.count())
    assert counts == [1, 1, 2]


def test_what_is_assigned_paused_nearly_spent_and_finished_is_told(
    received: Received, emails: None, adela: User, ana: User
):
    case = open_case(1)
    reassignment.reserve(case.pk, to=ana, actor=adela)
    job = job_of(adela, budget_calls=10, calls=9)
    life_cycle.mark(job.pk, timezone.now() - timedelta(minutes=2))
    for minute in (1, 2):  # told once
        life_cycle.mark(job.pk, timezone.now() + timedelta(minutes=minute))
    life_cycle.pause(job.pk, because="EndpointDown", detail="Frau Beispiel")
    life_cycle.resume(job.pk)
    sweep()  # settles: it has no rows
    sending.send_due()
    events = [json.loads(body) for _headers, body in received]
    assert [event["event"] for event in events] == ["assigned", "budget", "paused", "finished"]
    assert events[2]["because"] == "EndpointDown"
    assert {event["job"] for event in events[1:]} == {f"batch:{job.pk}"}
    assert events[3]["url"].endswith(reverse("generation:batch", args=[job.pk]))
    assert [sent.to[0] for sent in mail.outbox] == ["ana@example.org", *["adela@example.org"] * 3]
    assert not any("Beispiel" in sent.body for sent in mail.outbox)


@pytest.mark.both
def test_who_has_left_meanwhile_is_sent_nothing(emails: None, adela: User, ana: User):
    mention(adela, ana)
    accounts.set_active(ana.pk, False, actor=adela)
    sending.send_due()
    assert mail.outbox == []
    assert Delivery.objects.get().status == "given-up"


def test_the_digest_says_once_a_day_what_waits(emails: None, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digest, "HOUR", 0)
    for _ in range(2):  # the second is another process
        monkeypatch.setattr(digest, "_done", "")
        digest.write_due()
    assert not Delivery.objects.exists(), "nothing waits"
    open_case(1)
    for _ in range(2):
        monkeypatch.setattr(digest, "_done", "")
        digest.write_due()
    sending.send_due()
    [sent] = mail.outbox
    assert sent.to == ["ana@example.org"]
    assert "Cases that you could take: 1" in sent.body


def test_the_pages_add_test_and_switch_off(client: Client, adela: User, received: Received, statuses: list[int]):
    client.force_login(adela)
    fields = {"name": "other", "secret_env": "MHB_KEY_HOOK", "occasions": ["frozen"], "active": "on"}
    refused = client.post(reverse("generation:webhook-new"), {**fields, "url": "http://169.254.169.254/latest"})
    assert refused.status_code == 422
    refused = client.post(
        reverse("generation:webhook-new"),
        {**fields, "url": Webhook.objects.get().url, "secret_env": "MHB_SECRET_KEY"},
    )
    assert refused.status_code == 422
    assert (
        client.post(reverse("generation:webhook-new"), {**fields, "url": Webhook.objects.get().url}).status_code == 302
    )
    statuses += [200, 500]
    test = reverse("generation:webhook-test", args=["other"])
    assert "was received" in client.post(test, follow=True).content.decode()
    page = client.post(test, follow=True).content.decode()
    assert "The test failed" in page
    assert "given up" in client.get(reverse("generation:deliveries"), {"to": "other"}).content.decode()
    elsewhere = {**fields, "url": "http://a.example", "active": ""}
    assert client.post(reverse("generation:webhook", args=["other"]), elsewhere).status_code == 302
    assert not Webhook.objects.get(name="other").active
    assert "switched off" in client.get(reverse("generation:webhooks")).content.decode()


def test_e_mails_are_written_in_the_language_of_their_reader(client: Client, emails: None, adela: User, ana: User):
    client.force_login(ana)
    client.post(reverse("set_language"), {"language": "zh-hans"})
    ana.refresh_from_db()
    assert notifications.language_of(ana) == "zh-hans"
    User.objects.filter(pk=adela.pk).update(languages=["zh"])
    notifications.tell(
        Occasion.FROZEN, [ana, adela, User.objects.create_user("eve", email="eve@example.org")], release="r v1"
    )
    sending.send_due()
    chinese = {sent.to[0]: any("\u4e00" <= letter <= "\u9fff" for letter in str(sent.body)) for sent in mail.outbox}
    assert chinese == {"ana@example.org": True, "adela@example.org": True, "eve@example.org": False}


def test_a_sign_in_follows_the_language_of_the_account(client: Client, ana: User):
    ana.set_password("reading-room-1")
    ana.save()
    typed = {"login": "ana", "password": "reading-room-1"}
    for stored, page, expected in (("", "zh-hans", "zh-hans"), ("zh-hans", "en", "zh-hans")):
        assert User.objects.get(pk=ana.pk).site_language == stored
        client.logout()
        client.cookies.clear()
        signed_in = client.post(reverse("account_login"), typed, headers={"Accept-Language": page}, follow=True)
        assert User.objects.get(pk=ana.pk).site_language == expected
        assert "ana 登录成功" in signed_in.content.decode()
    assert client.cookies["django_language"].value == "zh-hans"


def test_a_language_chosen_before_the_sign_in_is_that_of_the_account(client: Client, ana: User):
    ana.set_password("reading-room-1")
    ana.site_language = "en"
    ana.save()
    client.post(reverse("set_language"), {"language": "zh-hans", "next": reverse("account_login")})
    assert Session.objects.count() == 0, "a visitor's choice begins no session"
    client.post(reverse("account_login"), {"login": "ana", "password": "reading-room-1"})
    assert User.objects.get(pk=ana.pk).site_language == "zh-hans"
    assert not client.cookies[language.CHOSEN].value, "the next to sign in here keeps their own"
    client.logout()
    client.cookies.clear()
    client.post(reverse("account_login"), {"login": "ana", "password": "reading-room-1"})
    assert client.cookies["django_language"].value == "zh-hans", "kept for the next time, in another browser"


def test_what_was_sent_to_people_and_programs_is_listed_on_one_page(
    client: Client, api: Api, received: Received, emails: None, adela: User, ana: User, statuses: list[int]
):
    statuses += [500]
    notifications.tell(Occasion.FROZEN, [ana], release="spring v1")
    sending.send_due()
    client.force_login(adela)
    page = client.get(reverse("generation:deliveries")).content.decode()
    assert reverse("review:person", args=[ana.pk]) in page
    assert reverse("generation:webhook", args=["hook"]) in page
    only = client.get(reverse("generation:deliveries"), {"to": "@"}).content.decode()
    assert reverse("generation:webhook", args=["hook"]) not in only.split("<tbody>")[1]
    rows = api(adela).get("/api/v1/deliveries/").json()["results"]
    assert {(row["person"], row["webhook"], row["status"]) for row in rows} == {
        ("ana", None, "sent"),
        (None, "hook", "waiting"),
    }
    assert len(api(adela).get("/api/v1/deliveries/?to=hook").json()["results"]) == 1


def test_a_webhook_is_deleted_while_it_was_told_of_nothing(
    client: Client, api: Api, manage: Manage, received: Received, adela: User
):
    hook = Webhook.objects.get()
    services.test_webhook(hook)
    assert manage.json("control_webhook", "disable", "hook") == {"webhook": "hook", "state": "disabled"}
    assert manage.json("control_webhook", "enable", "hook")["state"] == "enabled"
    notifications.tell(Occasion.FROZEN, release="spring v1")
    assert api(adela).delete("/api/v1/webhooks/hook/").status_code == 409
    client.force_login(adela)
    page, delete = reverse("generation:webhook", args=["hook"]), reverse("generation:webhook-delete", args=["hook"])
    assert delete not in client.get(page).content.decode()
    headers = {"Referer": f"http://testserver{page}"}
    assert "Switch it off instead" in client.post(delete, headers=headers, follow=True).content.decode()
    hook.deliveries.filter(occasion="frozen").delete()
    assert delete in client.get(page).content.decode()
    client.post(delete)
    assert not Webhook.objects.exists()
    assert not Delivery.objects.exists()
    services.delete_webhook(hook)  # of two at once, the second finds it gone
