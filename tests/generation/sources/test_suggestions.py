"""A file in another format than the one that was chosen: the right one is named by page, API and shell."""

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
TOLD = "This looks like HealthBench: choose format healthbench."


def test_the_right_format_is_suggested(client: Client, adela: User, manage: Manage, tmp_path: Path) -> None:
    client.force_login(adela)
    path = conversations_file(tmp_path / "own.jsonl", 2)
    assert TOLD in manage.refused("import_source", "--format", "pubmedqa", "--name", "own", path)

    def sent() -> dict[str, object]:
        return {"format": "pubmedqa", "name": "own", "file": SimpleUploadedFile("own.jsonl", path.read_bytes())}

    page = client.post(reverse("generation:sources"), sent())
    assert (page.status_code, TOLD in page.content.decode()) == (422, True)
    assert TOLD in client.post(reverse("api:imports"), sent()).content.decode()
    assert not Import.objects.exists()


def test_of_another_file_too(manage: Manage, tmp_path: Path) -> None:
    path = reports_file(tmp_path / "own.json", 2)
    said = manage.refused("import_source", "--format", "healthbench", "--name", "own", path)
    assert "choose format pmc-patients." in said


def test_what_is_of_no_known_format_has_no_suggestion(manage: Manage, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("nothing of the kind\n")
    assert "looks like" not in manage.refused("import_source", "--format", "healthbench", "--name", "own", path)
