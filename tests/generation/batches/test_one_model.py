"""An estimate warns when one model plays roles that should be played by different models."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from generation.models import Batch
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, import_file

WARNING = "Examiner and Generator are one model"


@pytest.mark.parametrize("examiner", ["maker", "other"])
def test_an_estimate_warns_when_the_examiner_is_the_generator(
    manage: Manage, tmp_path: Path, models: str, adela: User, client: Client, examiner: str
) -> None:
    generator = endpoint(models, name="maker")
    other = endpoint(models, name="other", model="sim-checker")
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    endpoints = {"generator": generator, "examiner": generator if examiner == "maker" else other}
    shared = [["examiner", "generator", "sim-generator"]] if examiner == "maker" else []

    api = APIClient()
    api.force_authenticate(adela)
    body = {"benchmark": "mhb", "source": source.name, "roles": {role: bound.name for role, bound in endpoints.items()}}
    assert api.post("/api/v1/batches/estimate/", body, format="json").json()["one_model"] == shared

    client.force_login(adela)
    form = {"benchmark": "mhb", "source": source.name} | {
        f"role-{role}": bound.name for role, bound in endpoints.items()
    }
    page = client.post(reverse("generation:batch-new"), form).content.decode()
    assert "Batch estimate" in page, page
    assert (WARNING in page) is bool(shared)

    roles = [part for role, bound in endpoints.items() for part in ("--role", f"{role}={bound.name}")]
    code, out, _err = manage("generate", "--benchmark", "mhb", "--source", source.name, *roles)
    assert code == 1
    assert ("examiner and generator: sim-generator" in out) is bool(shared)
    assert not Batch.objects.exists()
