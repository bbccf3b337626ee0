"""Images that are kept here: named by their SHA-256 in messages, in the ledger and in provider batches, whole on the wire."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from generation.engine import ledger, provider_batches
from generation.images import files, services
from generation.llm import request_body
from generation.llm.errors import BadRequest
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, Request
from generation.models import ProviderBatch, SentImage, StoredImage
from tests.engine import calls, drafts, endpoint
from tests.generation.images.drawn import picture
from tests.generation.llm.helpers import Ledger, ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(settings: Any, tmp_path: Path) -> StoredImage:
    settings.MHB_IMAGES = tmp_path
    return services.store_image(picture())


class Seeing:
    """A script that says which images it was shown."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        return f"{messages[-1].text} {' '.join(image.sha256 for image in messages[-1].images)}"


def asked(*images: str) -> Request:
    return Request((Message.with_images("user", "What is on it?", images),), prompt="test/look@1")


def test_the_wire_has_the_bytes_and_the_ledger_the_digest(kept: StoredImage) -> None:
    attempts = Ledger()
    with run_in_background(make_app([Seeing()])) as url:
        reply = ask(url, ledger=attempts, request=asked(kept.sha256, kept.sha256), open_image=files.open_image)
    assert reply.text == f"What is on it? {kept.sha256} {kept.sha256}"
    assert kept.sha256 in str(attempts[0].sent)
    assert "base64" not in str(attempts[0].sent)


def test_one_that_is_gone_is_said_by_name_and_not_asked_for(kept: StoredImage) -> None:
    files.image_path(kept.sha256).unlink()
    with run_in_background(make_app([Seeing()])) as url, pytest.raises(BadRequest, match=kept.sha256):
        ask(url, request=asked(kept.sha256), open_image=files.open_image)


def test_what_is_asked_differs_with_the_image() -> None:
    of = endpoint("http://models.example/v1").settings
    names = {request_body.identity(of, asked(*images)) for images in ((), ("0" * 64,), ("1" * 64,))}
    assert len(names) == 3
    assert Message.with_images("user", "Is it safe?", ()) == Message("user", "Is it safe?")


def test_a_provider_batch_holds_the_digest_and_uploads_the_bytes(kept: StoredImage) -> None:
    with run_in_background(make_app([Seeing()])) as url:
        of, job = endpoint(url, batches=True), drafts(1)
        sent, now = request_body.build_body(of.settings, asked(kept.sha256)), timezone.now()
        assert ledger.stored_image_bytes(sent) == kept.size
        ledger.store_images([sent])
        made = ProviderBatch.objects.create(job=job, endpoint=of, next_at=now, created_at=now, lines_count=1)
        name = request_body.identity(of.settings, asked(kept.sha256))
        made.lines.create(subject="draft:1", identity=name, sent=ledger.without_images(sent))
        provider_batches.advance_batches(job)
    [line] = calls(job)
    assert line.text == f"What is on it? {kept.sha256}"
    assert "base64" not in str(line.sent)
    assert not SentImage.objects.exists()


def test_data_urls_are_still_sent_as_they_are(kept: StoredImage) -> None:
    of = endpoint("http://models.example/v1").settings
    whole = ledger.with_images(request_body.build_body(of, asked(kept.sha256)))
    url = whole["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2]) == files.open_image(kept.sha256)[1]
