"""A hostile endpoint cannot have its key shown: not as it is, encoded, reversed or in pieces."""

import base64
import codecs
import urllib.parse

import pytest

from generation.llm.errors import MAX_DETAIL
from generation.llm.http.failures import NO_KEY, clean
from generation.llm.http.redaction import WITHHELD
from generation.llm.reply_reading import MAX_NAME, MAX_REASON, read_completion, read_embeddings
from generation.llm.types import Reply
from tests.generation.llm.helpers import completion

KEY = "sk-Ab3/dE9+fGh2_Jk7LmN0pQr"
FORMS = {
    "reversed": KEY[::-1],
    "lower": KEY.lower(),
    "upper": KEY.upper(),
    "rot13": codecs.encode(KEY, "rot13"),
    "spaced": " ".join(KEY),
    "lines": "\n".join(KEY),
    "zero width": "\u200b".join(KEY),
    "full width": "".join(chr(ord(letter) + 0xFEE0) for letter in KEY),
    "halves": f'{{"a": "{KEY[:13]}", "b": "{KEY[13:]}"}}',
    "thirds": f"first {KEY[:9]} then {KEY[9:18]} and {KEY[18:]}",
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64, shifted by 1": base64.b64encode(b"x" + KEY.encode()).decode(),
    "base64, shifted by 2": base64.b64encode(b"xy" + KEY.encode() + b" and more").decode(),
    "base64 for URLs": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "base64, reversed": base64.b64encode(KEY.encode()).decode()[::-1],
    "base64 of the reversed": base64.b64encode(KEY[::-1].encode()).decode(),
    "base64 twice": base64.b64encode(base64.b64encode(KEY.encode())).decode(),
    "base64, spaced": " ".join(base64.b64encode(KEY.encode()).decode()),
    "base32": base64.b32encode(KEY.encode()).decode(),
    "base85": base64.b85encode(KEY.encode()).decode(),
    "hex": KEY.encode().hex(),
    "hex with colons": KEY.encode().hex(":").upper(),
    "url-encoded": urllib.parse.quote(KEY, safe=""),
    "url-encoded throughout": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "entities": "".join(f"&#{byte};" for byte in KEY.encode()),
    "escapes": "".join(f"\\u{byte:04x}" for byte in KEY.encode()),
    "codes": ", ".join(str(byte) for byte in KEY.encode()),
    "binary": " ".join(f"{byte:08b}" for byte in KEY.encode()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["The key is ", "x" * (MAX_DETAIL - 16)])
def test_no_form_of_the_key_is_shown(form: str, before: str) -> None:
    shown = clean(before + FORMS[form], KEY)
    assert shown == WITHHELD or KEY[:10].lower() not in shown.lower()
    if len(before) < 100:
        assert shown == WITHHELD


def test_other_texts_are_shown() -> None:
    message = "The model `gpt-4o-2024-08-06` does not exist, request req_011CQ8t3sNvSkqmbY1cXz9aP. " * 20
    assert clean(message, KEY) == message[:MAX_DETAIL]
    assert clean(f"Incorrect API key provided: {KEY}.", KEY) == "Incorrect API key provided: ***."
    masked = "Incorrect API key provided: sk-Ab3*********0pQr."
    assert clean(masked, KEY) == masked
    assert clean("no key was sent", NO_KEY) == "no key was sent"


@pytest.mark.parametrize("form", [KEY, *FORMS.values()])
@pytest.mark.parametrize("letters", [0, MAX_REASON - 16, MAX_NAME - 16])
def test_what_stands_beside_a_reply_shows_no_key_even_where_it_is_cut(form: str, letters: int) -> None:
    said = "x" * letters + form
    embeddings = {"data": [{"index": 0, "embedding": [1.0]}]}
    named = {"model": said, "system_fingerprint": said}
    replies = (
        read_completion({**completion("Yes.", finish_reason=said), **named}, 200, KEY),
        read_embeddings({**embeddings, **named}, 1, 200, KEY),
    )
    for reply in replies:
        assert isinstance(reply, Reply)
        for name in (reply.model, reply.fingerprint, reply.finish_reason):
            assert KEY[:8].lower() not in name.lower()
            assert form[:8].lower() not in name.lower()
            assert len(name) <= MAX_NAME
