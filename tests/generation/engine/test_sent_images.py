"""Images in the ledger: a digest in the line, the bytes once in a row of their own."""

import base64
import hashlib
from typing import Any

import pytest
from django.utils import timezone

from generation.engine import ledger, provider_batches
from generation.engine.ledger import LedgerLine
from generation.llm import request_body
from generation.llm.types import Attempt, Image, Message, Reply, Request, Text
from generation.models import ProviderBatch, SentImage
from tests.engine import calls, drafts, endpoint, served, simulated

pytestmark = [pytest.mark.django_db, pytest.mark.both]
DATA = b"\x89PNG not really"
URL = "data:image/png;base64," + base64.b64encode(DATA).decode()
DIGEST_PREFIX = hashlib.sha256(DATA).hexdigest()
SEEN = Request((Message("user", (Text("What is on it?"), Image(URL), Image(URL))),), prompt="test/look@1")


def attempt(settings: Any) -> Attempt:
    sent = request_body.build_body(settings, SEEN)
    name = request_body.identity(settings, SEEN)
    return Attempt(settings, SEEN, sent, 1, timezone.now(), 0.1, reply=Reply("A cat."), identity=name)


def test_the_line_holds_the_digest_and_nothing_is_lost() -> None:
    of, job = endpoint("http://models.example/v1"), drafts(1)
    one = attempt(of.settings)
    ledger.write(job, [LedgerLine(one, of, "draft:1"), LedgerLine(attempt(of.settings), of, "draft:2")])
    lines = calls(job)
    parts = lines[0].sent["messages"][0]["content"]
    assert [part["image_url"]["url"] for part in parts[1:]] == [f"sha256:{DIGEST_PREFIX}"] * 2
    image = SentImage.objects.get()
    assert (image.digest, image.media_type, bytes(image.data)) == (DIGEST_PREFIX, "image/png", DATA)
    assert ledger.with_images(lines[0].sent) == one.sent
    ledger.write(job, [LedgerLine(attempt(of.settings), of, "draft:1")])
    assert SentImage.objects.count() == 1


def test_they_go_into_a_provider_batch_whole() -> None:
    with simulated() as url:
        of, job = endpoint(url, batches=True), drafts(1)
        [made] = _prepared(of, job)
        assert DIGEST_PREFIX in str(made.lines.get().sent)
        assert "base64" not in str(made.lines.get().sent)
        provider_batches.advance_batches(job)
        assert served(url)["images"] == 2
    [line] = calls(job)
    assert DIGEST_PREFIX in str(line.sent)
    assert line.text


def _prepared(of: Any, job: Any) -> list[ProviderBatch]:
    """A provider batch made by hand: drafts have no way into one."""
    now = timezone.now()
    sent = request_body.build_body(of.settings, SEEN)
    ledger.store_images([sent])
    made = ProviderBatch.objects.create(job=job, endpoint=of, next_at=now, created_at=now, lines_count=1)
    made.lines.create(
        subject="draft:1", identity=request_body.identity(of.settings, SEEN), sent=ledger.without_images(sent)
    )
    return [made]
