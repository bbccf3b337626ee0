"""Forbidden keys and addresses are refused when an endpoint is saved and when it is asked."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from generation.endpoints import services
from generation.llm.http.access import Access
from generation.models import Batch, Endpoint
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, import_file, run_batch, simulator, simulator_stats
from tests.engine import manage as manage

pytestmark = pytest.mark.django_db
FIELDS = {
    "name": "own", "url": "https://models.example/v1", "model": "m", "price_in": "0", "price_out": "0", "concurrency": "8",
    "timeout": "60",
}  # fmt: skip
REFUSED = [
    ("key_env", "AWS_SECRET_ACCESS_KEY"),
    ("key_env", "REDIS_PASSWORD"),
    ("key_env", "MHB_KEY_OWN_FILE"),
    ("url", "http://169.254.169.254/latest"),
    ("url", "http://database:5432/v1"),
    ("url", "http://127.0.0.1:8000/v1"),
]


@pytest.fixture(autouse=True)
def access(settings: Any) -> None:
    settings.MHB_ENDPOINT_ACCESS = Access(keys={"OWN_KEY": ()}, services=[("database", 5432)])


@pytest.mark.parametrize(("field", "value"), REFUSED)
def test_a_forbidden_key_or_address_is_refused_when_saved(
    client: Client, adela: User, manage: Manage, field: str, value: str
) -> None:
    client.force_login(adela)
    wrong = {**FIELDS, field: value}
    page = client.post(reverse("generation:endpoint-new"), wrong)
    assert (page.status_code, list(page.context["form"].errors)) == (422, [field])
    assert (value in page.content.decode()) == (field != "key_env"), "what was typed there may be the key itself"
    answer = client.post(reverse("api:endpoints"), wrong, content_type="application/json")
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, [field])
    key = ["--key-env", wrong["key_env"]] if "key_env" in wrong else []
    refusal = manage.refusal("add_endpoint", "own", "--url", wrong["url"], "--model", "m", *key)
    assert f" {field}: Endpoints cannot use " in refusal
    assert not Endpoint.objects.exists()
    saved = endpoint("https://models.example/v1", "m", name="own")
    changed = client.patch(reverse("api:endpoint", args=["own"]), {field: value}, content_type="application/json")
    assert changed.status_code == 400
    saved.refresh_from_db()
    assert (saved.url, saved.key_env) == ("https://models.example/v1", "")


def test_an_allowed_key_and_address_are_saved(client: Client, adela: User) -> None:
    client.force_login(adela)
    for number, key in enumerate(("OWN_KEY", "MHB_KEY_HOUSE", "")):
        sent = {**FIELDS, "name": f"own-{number}", "key_env": key, "url": "http://127.0.0.1:8010/v1"}
        assert client.post(reverse("generation:endpoint-new"), sent).status_code == 302


@pytest.mark.parametrize(
    ("field", "value"), [("key_env", "AWS_SECRET_ACCESS_KEY"), ("url", "http://169.254.169.254/v1")]
)
def test_an_endpoint_that_is_no_longer_allowed_pauses_its_batch(
    client: Client, adela: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-house")
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    with simulator() as url:
        target = endpoint(url)
        Endpoint.objects.filter(pk=target.pk).update(**{field: value})
        target.refresh_from_db()
        batch = run_batch(source, target)
        assert simulator_stats(url)["requests"] == 0
    assert (batch.status, batch.paused_because, batch.calls) == (Batch.Status.PAUSED, "NotAllowed", 0)
    assert "a-secret" not in batch.paused_detail
    client.force_login(adela)
    page = client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert "MHB_ENDPOINT_" in page
    assert reverse("generation:endpoint", args=[target.name]) in page
    if field == "key_env":
        assert "not allowed on this server" in client.get(reverse("generation:endpoints")).content.decode()


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("https://models.example/v1/chat/completions", "https://models.example/v1"),
        ("https://models.example/v1/Chat/Completions/", "https://models.example/v1"),
        ("https://models.example/v1/completions", "https://models.example/v1"),
        ("https://models.example/v1/responses", "https://models.example/v1"),
        ("https://models.example/api/v1//", "https://models.example/api/v1"),
        ("https://models.example", "https://models.example"),
    ],
)
def test_the_path_of_a_call_is_taken_off_an_address(db: None, typed: str, stored: str) -> None:
    added = services.add_endpoint(name="copied", url=typed, model="m")
    assert added.url == stored
    assert services.change_endpoint(added, url=typed).url == stored


@pytest.mark.parametrize(
    "typed",
    [
        "https://own.example/openai/deployments/m/chat/completions?api-version=2024-10-21",
        "https://own.example/v1#chat",
        "https://own.example?v=1",
        "https://own.example/v1/messages",
    ],
)
def test_an_address_with_a_query_or_of_another_protocol_is_refused(db: None, typed: str) -> None:
    with pytest.raises(ValidationError, match=r"base URL"):
        services.add_endpoint(name="copied", url=typed, model="m")
