"""Stored images: a SHA-256 in messages, ledger and provider batches, the bytes in requests."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from generation.engine import ledger, provider_batches
from generation.images import files
from generation.llm import request_body
from generation.llm.errors import BadRequest
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, Request
from generation.models import ProviderBatch, SentImage, StoredImage
from tests.engine import calls, drafts, endpoint
from tests.generation.images.drawing import picture, store_image
from tests.generation.llm.helpers import Ledger, ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def image(settings: Any, tmp_path: Path) -> StoredImage:
    settings.MHB_IMAGES = tmp_path
    return store_image(picture())


class SeeingScript:
    """A script that answers with the digests of the images it was sent."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        return f"{messages[-1].text} {' '.join(picture.sha256 for picture in messages[-1].images)}"


def request_with(*images: str) -> Request:
    return Request((Message.with_images("user", "What is on it?", images),), prompt="test/look@1")


def test_the_request_holds_the_bytes_and_the_ledger_the_digest(image: StoredImage) -> None:
    attempts = Ledger()
    with run_in_background(make_app([SeeingScript()])) as url:
        reply = ask(url, ledger=attempts, request=request_with(image.sha256, image.sha256), open_image=files.open_image)
    assert reply.text == f"What is on it? {image.sha256} {image.sha256}"
    assert image.sha256 in str(attempts[0].sent)
    assert "base64" not in str(attempts[0].sent)


def test_a_missing_image_is_named_and_nothing_is_sent(image: StoredImage, tmp_path: Path) -> None:
    (tmp_path / files.image_name(image.sha256)).unlink()
    with run_in_background(make_app([SeeingScript()])) as url, pytest.raises(BadRequest, match=image.sha256):
        ask(url, request=request_with(image.sha256), open_image=files.open_image)


def test_the_identity_of_a_request_depends_on_its_images() -> None:
    target = endpoint("http://models.example/v1").settings
    names = {request_body.identity(target, request_with(*images)) for images in ((), ("0" * 64,), ("1" * 64,))}
    assert len(names) == 3
    assert Message.with_images("user", "Is it safe?", ()) == Message("user", "Is it safe?")


def test_a_provider_batch_holds_the_digest_and_uploads_the_bytes(image: StoredImage) -> None:
    with run_in_background(make_app([SeeingScript()])) as url:
        target, job = endpoint(url, batches=True), drafts(1)
        sent, now = request_body.build_body(target.settings, request_with(image.sha256)), timezone.now()
        assert ledger.stored_image_bytes(sent) == image.size
        ledger.store_images([sent])
        batch = ProviderBatch.objects.create(job=job, endpoint=target, next_at=now, created_at=now, lines_count=1)
        name = request_body.identity(target.settings, request_with(image.sha256))
        batch.lines.create(subject="draft:1", identity=name, sent=ledger.without_images(sent))
        provider_batches.advance_batches(job)
    [line] = calls(job)
    assert line.text == f"What is on it? {image.sha256}"
    assert "base64" not in str(line.sent)
    assert not SentImage.objects.exists()


def test_a_digest_is_replaced_by_a_data_url_of_the_stored_bytes(image: StoredImage) -> None:
    target = endpoint("http://models.example/v1").settings
    whole = ledger.with_images(request_body.build_body(target, request_with(image.sha256)))
    url = whole["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2]) == files.open_image(image.sha256)[1]
