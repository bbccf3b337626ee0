"""Requests to models as the ledger stores them: each long text once, under its SHA-256."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import models

SHARED = 256  # characters from which a text is stored once; a reference to it takes 32 bytes
DIGEST_BYTES = 32
# Texts of a request begin and end where its JSON names them, and at the fences of a prompt's data.
_ENDS = re.compile(r'("content": "|"text": "|"response_format": |<<<[A-Z]+\\n|\\n[A-Z]+>>>)')

# What most requests contain, so that it takes hardly any room. Stored requests are read with it: it
# must never change.
_USUAL = (
    rb"\"max_completion_tokens\": , \"seed\": , \"top_p\": 0., \"input\": [\"{\"type\": \"text\", \"text\": \""
    rb"{\"type\": \"image_url\", \"image_url\": {\"url\": \"\\nSOURCE>>>\\n\\n<<<QUESTION\\n\\nANSWER>>>\\n\\n<<<CONTEXT\\n"
    rb"The response must not state that Answer with the JSON object. Does the response meet this criterion? "
    rb'\\nCONTEXT>>>\\n\\n<<<STIMULUS\\n\\\"\\nSTIMULUS>>>\\n\\n<<<RESPONSE\\n", null, "\\nRESPONSE>>>\\n\\n<<<TRAPS\\n", '
    rb'null, "\\nTRAPS>>>\\n\\n<<<CRITERION\\n\\\"\\nCRITERION>>>\\n\\n\"}, {\"role\": \"assistant\", \"content\": \"", null, '
    rb'"\"}], \"max_tokens\": 16384, \"temperature\": 0.5, \"response_format\": ", null, ""]'
    rb'["{\"model\": \"", \"messages\": [{\"role\": \"system\", \"content\": \"", null, "\"content\": \"<<<'
)


class SentText(models.Model):
    """A text of requests to models: a prompt, a context, a source, a reply that is judged.

    `digest`: SHA-256 of its UTF-8. `data`: UTF-8, compressed by zlib. `used_on`: the last day (UTC)
    on which a request with this text was written; no request of a later day refers to it.
    """

    digest = models.BinaryField(primary_key=True, max_length=DIGEST_BYTES)
    data = models.BinaryField()
    used_on = models.DateField()


def store_requests(bodies: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Store request bodies, and return what `Call.request` keeps of each.

    Texts that are stored already are not stored again. Runs in the caller's transaction.
    """
    texts: dict[bytes, str] = {}
    packed = [pack_request(body, texts) for body in bodies]
    today = datetime.now(UTC).date()
    known = SentText.objects.filter(digest__in=list(texts), used_on__gte=today).values_list("digest", flat=True)
    fresh = texts.keys() - {bytes(digest) for digest in known}
    rows = [  # in the order of their digests: two writers cannot deadlock
        SentText(digest=digest, data=zlib.compress(texts[digest].encode()), used_on=today) for digest in sorted(fresh)
    ]
    SentText.objects.bulk_create(rows, update_conflicts=True, unique_fields=["digest"], update_fields=["used_on"])
    return packed


def pack_request(body: Mapping[str, Any], texts: dict[bytes, str] | None = None) -> bytes:
    """What `Call.request` keeps of a body: its JSON in parts, compressed, and digests of long ones.

    The digests follow the compressed JSON, which has null in their places. Their texts are added to
    `texts`; without it, nothing is left out.
    """
    if not body:
        return b""
    parts: list[str | None] = [""]
    digests = []
    for part in _ENDS.split(json.dumps(body, ensure_ascii=False)):
        if texts is not None and len(part) >= SHARED:
            digest = hashlib.sha256(part.encode()).digest()
            texts[digest] = part
            digests.append(digest)
            parts += [None, ""]
        else:
            parts[-1] = f"{parts[-1]}{part}"
    compressor = zlib.compressobj(zdict=_USUAL)
    compressed = compressor.compress(json.dumps(parts, ensure_ascii=False).encode()) + compressor.flush()
    return compressed + b"".join(digests)


def read_requests(packed: Sequence[bytes]) -> list[dict[str, Any]]:
    """The request bodies that were stored, in order: one query. One whose text was erased is {}."""
    digests: set[bytes] = set()
    for request in packed:
        digests.update(digests_of(request))
    texts: dict[bytes, str] = {}
    if digests:
        for digest, data in SentText.objects.filter(digest__in=digests).values_list("digest", "data"):
            texts[bytes(digest)] = zlib.decompress(data).decode()
    return [_unpacked(request, texts) for request in packed]


def digests_of(packed: bytes) -> list[bytes]:
    """The digests of the texts that a stored request refers to, in order."""
    return _read(packed)[1]


def _read(packed: bytes) -> tuple[list[str | None], list[bytes]]:
    if not packed:
        return [], []
    decoder = zlib.decompressobj(zdict=_USUAL)
    parts: list[str | None] = json.loads(decoder.decompress(packed))
    tail = decoder.unused_data
    return parts, [tail[start : start + DIGEST_BYTES] for start in range(0, len(tail), DIGEST_BYTES)]


def _unpacked(packed: bytes, texts: Mapping[bytes, str]) -> dict[str, Any]:
    parts, digests = _read(packed)
    if not parts or not texts.keys() >= set(digests):
        return {}
    shared = iter(digests)
    whole = [texts[next(shared)] if part is None else part for part in parts]
    body: dict[str, Any] = json.loads("".join(whole))
    return body
