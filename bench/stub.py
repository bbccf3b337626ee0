"""A stub model: `python -m bench.stub MEAN SIGMA [HOST]`.

MEAN is the mean latency in seconds, SIGMA the standard deviation of its logarithm.

It speaks just enough HTTP for the measured clients, answers every chat completion with fixed text
after a random latency, and prints its port. ``GET /stats`` returns the number of answers, the
maximum in flight, and the time of the first call (``time.monotonic``, which all processes of a
machine share).
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable
from random import Random

VERDICT = json.dumps({"explanation": "It says so in the second sentence.", "criteria_met": True})
ANSWER = "The test you name does not exist. " * 12


def _completion(text: str) -> bytes:
    body = {
        "id": "stub",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 300, "completion_tokens": 80, "total_tokens": 380},
    }
    return _response(json.dumps(body).encode())


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


ANSWER_RESPONSE, VERDICT_RESPONSE = _completion(ANSWER), _completion(VERDICT)


class Stats:
    """The counts of the stub."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.answered = self.in_flight = self.most = 0
        self.first = self.last = 0.0

    def as_response(self) -> bytes:
        counts = {"answered": self.answered, "most": self.most, "first": self.first, "last": self.last}
        return _response(json.dumps(counts).encode())


class Stub(asyncio.Protocol):
    """One connection, one request at a time, as HTTP clients without pipelining use it."""

    def __init__(self, stats: Stats, latency: Callable[[], float]) -> None:
        self._stats, self._latency = stats, latency
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if len(rest) < length:
            return
        self._buffer = b""
        if head.startswith(b"GET /reset"):
            self._stats.reset()
        if head.startswith(b"GET"):
            self._write(self._stats.as_response())
            return
        self._stats.first = self._stats.first or time.monotonic()
        self._stats.in_flight += 1
        self._stats.most = max(self._stats.most, self._stats.in_flight)
        asyncio.get_running_loop().call_later(self._latency(), self._answer, b"criteria_met" in rest)

    def _answer(self, is_judgment: bool) -> None:
        self._stats.in_flight -= 1
        self._stats.answered += 1
        self._stats.last = time.monotonic()
        self._write(VERDICT_RESPONSE if is_judgment else ANSWER_RESPONSE)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def main(mean: float, sigma: float, host: str = "127.0.0.1") -> None:
    random = Random(7)
    mu = math.log(mean) - sigma * sigma / 2  # so that `mean` is the mean, whatever the spread
    stats = Stats()

    def latency() -> float:
        return random.lognormvariate(mu, sigma) if sigma else mean

    server = await asyncio.get_running_loop().create_server(lambda: Stub(stats, latency), host, 0, backlog=2_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
