"""The questions with which an endpoint is tested."""

from pydantic import BaseModel

from generation.llm.types import ImagePart, Message, Request, TextPart

PROMPT = "test"  # the prompt name in the ledger
FIRST_LINE = "This is a test of the connection."
ANSWER = '{"answer": "heart"}'
QUESTION = 'Which organ pumps blood through the body? Reply with one JSON object: {"answer": "<one word>"}'
REQUEST = Request((Message("system", FIRST_LINE), Message("user", QUESTION)), prompt=PROMPT, cache_key=PROMPT)
TOKENS = 2_000  # enough for a model that thinks first
RED_SQUARE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkAAAjAsP7/tF7hIASyp6lT"
    "CQQCgUAgEAgEgi/BAjLD/C5w/SM9AAAAAElFTkSuQmCC"
)
SEEING = Request(
    (Message("user", (TextPart("Which colour has this picture? Reply with one word."), ImagePart(RED_SQUARE))),),
    prompt=PROMPT,
    max_tokens=TOKENS,
)


class ProbeReply(BaseModel):
    """The shape of the reply."""

    answer: str
