"""What the operator does not allow is refused where an endpoint is saved (page, API, shell) and where it is asked."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.llm.http.access import Access
from generation.models import Batch, Endpoint
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, generated, imported, served, simulated
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
def test_it_is_refused_at_saving(client: Client, adela: User, manage: Manage, field: str, value: str) -> None:
    client.force_login(adela)
    wrong = {**FIELDS, field: value}
    page = client.post(reverse("generation:endpoints"), wrong)
    assert (page.status_code, list(page.context["form"].errors)) == (422, [field])
    answer = client.post(reverse("api:endpoints"), wrong, content_type="application/json")
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, [field])
    key = ["--key-env", wrong["key_env"]] if "key_env" in wrong else []
    said = manage.refused("add_endpoint", "own", "--url", wrong["url"], "--model", "m", *key)
    assert f" {field}: Endpoints cannot use " in said
    assert not Endpoint.objects.exists()
    known = endpoint("https://models.example/v1", "m", name="own")
    changed = client.patch(reverse("api:endpoint", args=["own"]), {field: value}, content_type="application/json")
    assert changed.status_code == 400
    known.refresh_from_db()
    assert (known.url, known.key_env) == ("https://models.example/v1", "")


def test_what_is_allowed_is_saved(client: Client, adela: User) -> None:
    client.force_login(adela)
    for number, key in enumerate(("OWN_KEY", "MHB_KEY_HOUSE", "")):
        sent = {**FIELDS, "name": f"own-{number}", "key_env": key, "url": "http://127.0.0.1:8010/v1"}
        assert client.post(reverse("generation:endpoints"), sent).status_code == 302


@pytest.mark.parametrize(
    ("field", "value"), [("key_env", "AWS_SECRET_ACCESS_KEY"), ("url", "http://169.254.169.254/v1")]
)
def test_one_that_was_saved_before_pauses_what_asks_it(
    client: Client, adela: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-house")
    source = imported(conversations_file(tmp_path / "own.jsonl", 2))
    with simulated() as url:
        of = endpoint(url)
        Endpoint.objects.filter(pk=of.pk).update(**{field: value})
        of.refresh_from_db()
        batch = generated(source, of)
        assert served(url)["requests"] == 0
    assert (batch.status, batch.paused_because, batch.calls) == (Batch.Status.PAUSED, "NotAllowed", 0)
    assert "a-secret" not in batch.paused_detail
    client.force_login(adela)
    page = client.get(reverse("generation:batch", args=[batch.pk])).content.decode()
    assert "MHB_ENDPOINT_" in page
    assert reverse("generation:endpoint", args=[of.name]) in page
    if field == "key_env":
        assert "not allowed on this server" in client.get(reverse("generation:endpoints")).content.decode()
