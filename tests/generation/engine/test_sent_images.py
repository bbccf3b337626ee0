"""Images in the ledger: the line holds a digest, and a separate row the bytes, once."""

import base64
import hashlib
from typing import Any

import pytest
from django.utils import timezone

from generation.engine import ledger, provider_batches
from generation.engine.ledger import LedgerLine
from generation.llm import request_body
from generation.llm.types import Attempt, ImagePart, Message, Reply, Request, TextPart
from generation.models import ProviderBatch, SentImage
from tests.engine import calls, drafts, endpoint, simulator, simulator_stats

pytestmark = [pytest.mark.django_db, pytest.mark.both]
DATA = b"\x89PNG not really"
URL = "data:image/png;base64," + base64.b64encode(DATA).decode()
DIGEST_PREFIX = hashlib.sha256(DATA).hexdigest()
REQUEST = Request(
    (Message("user", (TextPart("What is on it?"), ImagePart(URL), ImagePart(URL))),), prompt="test/look@1"
)


def attempt(settings: Any) -> Attempt:
    sent = request_body.build_body(settings, REQUEST)
    name = request_body.identity(settings, REQUEST)
    return Attempt(settings, REQUEST, sent, 1, timezone.now(), 0.1, reply=Reply("A cat."), identity=name)


def test_a_ledger_line_holds_the_digest_and_the_body_can_be_restored() -> None:
    target, job = endpoint("http://models.example/v1"), drafts(1)
    first = attempt(target.settings)
    ledger.write(job, [LedgerLine(first, target, "draft:1"), LedgerLine(attempt(target.settings), target, "draft:2")])
    lines = calls(job)
    parts = lines[0].sent["messages"][0]["content"]
    assert [part["image_url"]["url"] for part in parts[1:]] == [f"sha256:{DIGEST_PREFIX}"] * 2
    image = SentImage.objects.get()
    assert (image.digest, image.media_type, bytes(image.data)) == (DIGEST_PREFIX, "image/png", DATA)
    assert ledger.with_images(lines[0].sent) == first.sent
    ledger.write(job, [LedgerLine(attempt(target.settings), target, "draft:1")])
    assert SentImage.objects.count() == 1


def test_images_are_uploaded_whole_in_a_provider_batch() -> None:
    with simulator() as url:
        target, job = endpoint(url, batches=True), drafts(1)
        batch = _create_provider_batch(target, job)
        assert DIGEST_PREFIX in str(batch.lines.get().sent)
        assert "base64" not in str(batch.lines.get().sent)
        provider_batches.advance_batches(job)
        assert simulator_stats(url)["images"] == 2
    [line] = calls(job)
    assert DIGEST_PREFIX in str(line.sent)
    assert line.text


def _create_provider_batch(target: Any, job: Any) -> ProviderBatch:
    """Create a provider batch directly, because drafts are never sent in one."""
    now = timezone.now()
    sent = request_body.build_body(target.settings, REQUEST)
    ledger.store_images([sent])
    batch = ProviderBatch.objects.create(job=job, endpoint=target, next_at=now, created_at=now, lines_count=1)
    batch.lines.create(
        subject="draft:1", identity=request_body.identity(target.settings, REQUEST), sent=ledger.without_images(sent)
    )
    return batch
