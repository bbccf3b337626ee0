"""Invitations are e-mailed, or shown once if the site has no mail server or it fails."""

import json
import smtplib
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.management import call_command
from django.urls import reverse

from mhb_site.env import Env
from review.models import User
from review.people import accounts, invitations
from review.rules.permissions import OPERATOR
from tests.api.conftest import Api, api
from tests.review.pages import Browse, text_of

__all__ = ["api"]
pytestmark = pytest.mark.django_db
LINK = "/accounts/invitation/"
FILE = "name,email\nNia Noor,nia@example.org\nSam Okoro,\n"


@pytest.fixture
def emails(settings: Any) -> None:
    settings.MHB_EMAILS = True
    settings.DEFAULT_FROM_EMAIL = "mhb@example.org"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(FILE, encoding="utf-8")
    return path


def run(*arguments: Any) -> dict[str, Any]:
    out = StringIO()
    call_command(*map(str, arguments), "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


def test_without_a_mail_server_the_link_is_shown(people: Path) -> None:
    result = run("import_people", people)
    assert all(LINK in person["link"] and person["emailed"] is False for person in result["people"])
    assert not mail.outbox


def test_a_link_is_e_mailed_and_not_shown(emails: None, people: Path) -> None:
    nia, sam = run("import_people", people)["people"]
    assert (nia["link"], nia["emailed"]) == ("", True)
    assert LINK in sam["link"], "a person without an address gets a link"
    [sent] = mail.outbox
    assert (sent.to, sent.from_email) == (["nia@example.org"], "mhb@example.org")
    assert "nia.noor" in sent.body
    [path] = [line for line in sent.body.splitlines() if LINK in line]
    user = User.objects.get(username="nia.noor")
    assert invitations.is_valid(user, path.rstrip("/").rpartition("/")[2])
    assert run("add_person", "Ina Berg", "--email", "ina@example.org")["link"] == ""
    assert len(mail.outbox) == 2


def test_a_dry_run_e_mails_nobody(emails: None, people: Path) -> None:
    assert run("import_people", people, "--dry-run")["added"] == 0
    assert not mail.outbox


def test_an_address_to_which_nothing_can_be_sent_shows_its_link_and_stops_no_other(
    emails: None, tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"name,email\nNia Noor,nia@{'é' * 60}.example\nSam Okoro,sam@example.org\n", encoding="utf-8")
    nia, sam = run("import_people", path)["people"]
    assert (LINK in nia["link"], sam["emailed"]) == (True, True)
    assert [sent.to for sent in mail.outbox] == [["sam@example.org"]]


def test_when_the_mail_server_fails_the_links_are_shown(emails: None, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def fail(*_arguments: Any, **_options: Any) -> int:
        attempts.append(1)
        raise smtplib.SMTPServerDisconnected

    monkeypatch.setattr(mail, "send_mail", fail)
    users = [User(username=name, email=f"{name}@example.org", role="physician") for name in ("nia", "sam")]
    sent = invitations.send_invitations(accounts.invite_new(users, actor=OPERATOR), "http://testserver")
    assert all(LINK in invitation.link and not invitation.emailed for invitation in sent)
    assert len(attempts) == 1, "a server that does not answer is not tried again"


def test_page_and_api_say_that_the_invitation_was_e_mailed(emails: None, browse: Browse, api: Api, adela: User) -> None:
    typed = {"username": "nia", "first_name": "Nia", "role": "physician", "email": "nia@example.org"}
    page = browse(adela).post(reverse("review:person-new"), typed)
    html = text_of(page)
    assert "e-mailed" in html
    assert LINK not in html
    nia = User.objects.get(username="nia")
    again = api(adela).post(f"/api/v1/people/{nia.pk}/invite/").json()
    assert (again["link"], again["emailed"]) == ("", True)
    assert len(mail.outbox) == 2


def test_simulated_physicians_are_not_invited(emails: None, people: Path) -> None:
    result = run("import_people", people, "--simulated")
    assert result["added"] == 2
    assert not mail.outbox
    nia = User.objects.get(username="nia.noor")
    assert (nia.simulated, nia.has_usable_password(), invitations.is_invitable(nia)) == (True, False, False)


@pytest.mark.parametrize(
    ("url", "sender", "error"),
    [
        ("smtp+tls://u:p%40ss@mail.example.org", "mhb@example.org", ""),
        ("http://mail.example.org", "mhb@example.org", "must begin with smtp"),
        ("smtp://", "mhb@example.org", "must be an address"),
        ("smtps://mail.example.org", "", "MHB_EMAIL_FROM"),
    ],
)
def test_the_settings_of_the_mail_server_are_checked_at_startup(
    tmp_path: Path, url: str, sender: str, error: str
) -> None:
    def read() -> Env:
        return Env(data_dir=tmp_path, email_url=url, email_from=sender)

    if error:
        with pytest.raises(ValueError, match=error):
            read()
    else:
        assert read().mail.hostname == "mail.example.org"
