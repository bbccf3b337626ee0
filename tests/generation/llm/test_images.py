"""Images in messages: which are allowed, how they are sent, and their part in the identity."""

import base64

import pytest

from generation.llm import request_body, types
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import ImagePart, Message, Request, TextPart
from tests.engine import simulator_stats
from tests.generation.llm.helpers import ask, fake_endpoint, settings_for

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG not really").decode()
GIF = "data:image/gif;base64," + base64.b64encode(b"GIF89a").decode()
REQUEST = Request(
    (Message("user", (TextPart("What is on it?"), ImagePart(PNG), TextPart("And here?"), ImagePart(GIF))),)
)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x.png",
        "data:text/html;base64,PGI+",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png,raw",
        "data:image/png;base64,",
        "data:image/png;base64,%%%",
        "data:image/png;base64,abc",
        PNG + "\n",
    ],
)
def test_only_data_urls_of_images_are_allowed(url: str) -> None:
    with pytest.raises(ValueError, match="data URL"):
        ImagePart(url)


def test_no_image_is_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "MAX_IMAGE", 5)
    with pytest.raises(ValueError, match="larger"):
        ImagePart(GIF)
    monkeypatch.setattr(types, "MAX_IMAGE", 6)
    ImagePart(GIF)


def test_images_are_sent_as_parts_in_order() -> None:
    with fake_endpoint("A cat.") as target:
        assert ask(target.url, request=REQUEST).text == "A cat."
    assert target.bodies[0]["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is on it?"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "text", "text": "And here?"},
                {"type": "image_url", "image_url": {"url": GIF}},
            ],
        }
    ]


def test_images_are_part_of_the_identity() -> None:
    model_settings = settings_for("http://models.example/v1")
    requests = [
        REQUEST,
        Request(
            (Message("user", (TextPart("What is on it?"), ImagePart(GIF), TextPart("And here?"), ImagePart(PNG))),)
        ),
        Request((Message("user", (TextPart("What is on it?"), TextPart("And here?"))),)),
        Request((Message("user", "What is on it?\nAnd here?"),)),
    ]
    assert len({request_body.identity(model_settings, request) for request in requests}) == 4


def test_the_identity_of_text_alone_has_not_changed() -> None:
    model_settings = settings_for("http://models.example/v1")
    name = "ca129a377180b93a60042f9f8c43f9dd37c07a465a82a600d7caf38655e3120c"
    assert request_body.identity(model_settings, Request((Message("user", "Is it safe?"),))) == name


def test_an_image_counts_in_the_estimate() -> None:
    model_settings = settings_for("http://models.example/v1")
    assert (
        request_body.estimate(model_settings, REQUEST).tokens_in
        == 2 * request_body.IMAGE_TOKENS + len("What is on it?\nAnd here?") // 4
    )


def test_the_simulator_counts_images() -> None:
    with run_in_background(make_app([])) as url:
        ask(url, request=REQUEST)
        ask(url)
        assert simulator_stats(url)["images"] == 2
