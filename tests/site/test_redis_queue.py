"""Messages on Redis that the site did not send: broken, forged, replayed under another name."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

import pytest
import redis
from kombu import Connection, Exchange, Queue

from bench import servers
from mhb_site.server.messages import SIGNATURE
from tests.processes import running_site
from tests.profile import installed

pytestmark = [pytest.mark.processes, pytest.mark.plain]
QUEUE = Queue("mhb", Exchange("mhb"), routing_key="mhb")
TRANSPORT = "mhb_site.server.redis_queue:RedisTransport"
NO_MESSAGES = (
    b"",
    b"no JSON",
    b'{"body": "e30=", "prope',
    b"\xff\xfe",
    b"[]",
    b"null",
    b"7",
    b"{}",
    b'{"headers": [], "properties": {}, "body": ""}',
    b'{"headers": {"mhb-signature": 7}, "properties": {"delivery_info": {}}, "body": []}',
    b'{"__type__": "datetime", "__value__": {}}',
    b"[" * 100_000,
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Redis]:
    with installed(), servers.redis_server() as running:
        yield running


@contextmanager
def connected(server: servers.Redis) -> Iterator[Connection]:
    with Connection(server.url, transport=TRANSPORT) as broker:
        yield broker


def send(broker: Connection, text: str) -> None:
    with broker.Producer() as producer:
        headers = {"task": "generation.tasks.send_messages", "id": text}
        producer.publish({"text": text}, exchange=QUEUE.exchange, routing_key="mhb", declare=[QUEUE], headers=headers)


def forged(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of the site's own, changed in one place."""
    yield message | {"body": "W10="}
    yield message | {"headers": message["headers"] | {"task": "generation.tasks.run_import"}}
    yield message | {"headers": message["headers"] | {"eta": "2100-01-01T00:00:00"}}
    yield message | {"headers": message["headers"] | {SIGNATURE: "0" * 64}}
    yield message | {"content-type": "application/x-python-serialize"}
    yield message | {"properties": message["properties"] | {"body_encoding": "none"}}
    elsewhere = message["properties"]["delivery_info"] | {"routing_key": "mhb-lanes"}
    yield message | {"properties": message["properties"] | {"delivery_info": elsewhere}}


def received(broker: Connection) -> set[str]:
    texts: set[str] = set()

    def take(body: Any, message: Any) -> None:
        texts.add(body["text"])
        message.ack()

    with broker.Consumer(QUEUE, callbacks=[take]):
        for _ in range(40):
            try:
                broker.drain_events(timeout=0.2)
            except (TimeoutError, Empty):
                continue
    return texts


def test_only_messages_of_the_site_arrive(server: servers.Redis) -> None:
    client = redis.Redis.from_url(server.url)
    client.flushall()
    with connected(server) as broker:
        send(broker, "first")
        raw = client.lrange("mhb", 0, 0)[0]
        for broken in (*NO_MESSAGES, *(json.dumps(each).encode() for each in forged(json.loads(raw)))):
            client.lpush("mhb", broken)
        client.sadd("_kombu.binding.mhb", "no binding")
        send(broker, "last")
        assert received(broker) == {"first", "last"}
    assert client.llen("mhb") == 0


def test_what_a_worker_gives_back_is_taken_again(server: servers.Redis) -> None:
    """The broker marks it as redelivered, which is not signed."""
    redis.Redis.from_url(server.url).flushall()
    with connected(server) as broker:
        send(broker, "once more")
        simple = broker.SimpleQueue(QUEUE)  # type: ignore[arg-type]  # its stub accepts names only
        simple.get(timeout=5).requeue()
        assert simple.get(timeout=5).payload["text"] == "once more"


def test_a_worker_outlives_messages_that_are_none(tmp_path: Any) -> None:
    with installed(), running_site("production", tmp_path) as site:
        client = redis.Redis.from_url(site.environment["MHB_REDIS_URL"])
        site.start_worker()
        site.wait_until("the worker beats", lambda: site.number("SELECT count(*) FROM generation_workerbeat") > 0)
        for broken in NO_MESSAGES:
            client.lpush("mhb", broken)
            client.lpush("mhb-lanes", broken)
        site.wait_until("they are gone", lambda: client.llen("mhb") + client.llen("mhb-lanes") == 0)
        assert site.children.processes["worker"].poll() is None


def spoil(client: Any) -> None:
    """Store another type under each key of the transport."""
    for key in ("mhb", "mhb-lanes", "mhb\x06\x163", "unacked", "unacked_index"):
        client.delete(key)
        client.set(key, "a string")
    for key in ("_kombu.binding.mhb", "_kombu.binding.mhb-lanes", "unacked_mutex"):
        client.delete(key)
        client.lpush(key, "a list")


def test_keys_of_another_type_do_not_stop_messages(server: servers.Redis) -> None:
    client = redis.Redis.from_url(server.url)
    client.flushall()
    spoil(client)
    with connected(server) as broker:
        send(broker, "first")
        assert received(broker) == {"first"}
        client.hset("unacked", "tag", "no JSON")
        client.zadd("unacked_index", {"tag": 0})
        broker.default_channel.qos.restore_visible(interval=1)  # type: ignore[attr-defined]
    assert (client.hlen("unacked"), client.zcard("unacked_index")) == (0, 0)


def test_a_worker_outlives_keys_of_another_type(tmp_path: Any) -> None:
    with installed(), running_site("production", tmp_path) as site:
        client = redis.Redis.from_url(site.environment["MHB_REDIS_URL"])
        site.start_worker()
        site.wait_until("the worker beats", lambda: site.number("SELECT count(*) FROM generation_workerbeat") > 0)
        for _ in range(2):
            spoil(client)
            site.wait_until("the queue is usable", lambda: client.type("mhb") != b"string")
        assert site.children.processes["worker"].poll() is None
