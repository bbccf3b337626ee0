"""Page, API and shell suggest the right format for a file in another one than was chosen."""

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from generation.models import Import
from review.models import User
from tests.engine import Manage, conversations_file, reports_file
from tests.engine import manage as manage

pytestmark = pytest.mark.django_db
SUGGESTION = "This looks like HealthBench: choose format healthbench."


def test_the_right_format_is_suggested(client: Client, adela: User, manage: Manage, tmp_path: Path) -> None:
    client.force_login(adela)
    path = conversations_file(tmp_path / "own.jsonl", 2)
    assert SUGGESTION in manage.refusal("import_source", "--format", "pubmedqa", "--name", "own", path)

    def form() -> dict[str, object]:
        return {"format": "pubmedqa", "name": "own", "file": SimpleUploadedFile("own.jsonl", path.read_bytes())}

    page = client.post(reverse("generation:sources"), form())
    assert (page.status_code, SUGGESTION in page.content.decode()) == (422, True)
    assert SUGGESTION in client.post(reverse("api:imports"), form()).content.decode()
    assert not Import.objects.exists()


def test_the_right_format_is_suggested_for_reports(manage: Manage, tmp_path: Path) -> None:
    path = reports_file(tmp_path / "own.json", 2)
    message = manage.refusal("import_source", "--format", "healthbench", "--name", "own", path)
    assert "choose format pmc-patients." in message


def test_a_file_of_unknown_format_has_no_suggestion(manage: Manage, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("nothing of the kind\n")
    assert "looks like" not in manage.refusal("import_source", "--format", "healthbench", "--name", "own", path)


def test_the_page_recognises_a_file_without_a_format(client: Client, adela: User, tmp_path: Path) -> None:
    client.force_login(adela)
    path = conversations_file(tmp_path / "own.jsonl", 2)
    form = {"format": "", "name": "own", "file": SimpleUploadedFile("own.jsonl", path.read_bytes())}
    assert client.post(reverse("generation:sources"), form).status_code == 302
    assert Import.objects.get().source.format == "healthbench"


def test_a_refused_file_is_to_be_chosen_again(client: Client, adela: User) -> None:
    client.force_login(adela)
    form = {"format": "", "name": "own", "file": SimpleUploadedFile("own.txt", b"nothing of the kind\n")}
    page = client.post(reverse("generation:sources"), form).content.decode()
    assert "does not show its format" in page
    assert "Choose the file again" in page
