"""The broker of a site with Redis: kombu's, which drops what the site did not send itself."""

import logging
from queue import Empty
from typing import Any

from kombu.transport import redis
from redis.exceptions import ResponseError

from mhb_site.server import messages

log = logging.getLogger(__name__)

UNREADABLE = (
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)  # of what is no JSON, or nested without end


class RedisQoS(redis.QoS):
    """Messages that workers have taken and not yet done."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        try:
            super().restore_by_tag(tag, client, leftmost)
        except UNREADABLE as error:
            log.warning("dropped an unreadable message that was taken (%s)", type(error).__name__)
            with self.channel.conn_or_acquire(client) as client:  # type: ignore[attr-defined]
                self._remove_from_indices(tag, client.pipeline()).execute()  # type: ignore[attr-defined]


class RedisChannel(redis.Channel):
    """Messages as JSON in a list of Redis, signed.

    A key that is of another type than the transport needs is deleted when a process connects.
    """

    QoS = RedisQoS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keep_type("hash", self.unacked_key)
        self._keep_type("zset", self.unacked_index_key)
        self._keep_type("string", self.unacked_mutex_key)

    def _new_queue(self, queue: str, *args: Any, **options: Any) -> None:
        keys = [self._q_for_pri(queue, step) for step in self.priority_steps]  # type: ignore[attr-defined]
        self._keep_type("list", *keys)
        super()._new_queue(queue, *args, **options)

    def _queue_bind(self, exchange: str, *args: Any) -> None:
        self._keep_type("set", self.keyprefix_queue % exchange)
        super()._queue_bind(exchange, *args)  # type: ignore[misc]

    def _keep_type(self, kind: str, *keys: str) -> None:
        with self.conn_or_acquire() as client:
            for key in keys:
                if client.type(key) not in (kind.encode(), b"none"):
                    log.warning("deleted the key %s of Redis, which is no %s", key, kind)
                    client.delete(key)

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        messages.sign(message)
        super()._put(queue, message, **options)

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # not in its stub
        except UNREADABLE as error:
            log.warning("dropped an unreadable queue message (%s)", type(error).__name__)
            raise Empty from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        while True:  # ends, because each message taken is removed
            try:
                message = super()._get(queue)
            except UNREADABLE as error:
                log.warning("dropped an unreadable queue message (%s)", type(error).__name__)
                continue
            if messages.is_ours(message):
                return message

    def get_table(self, exchange: str) -> list[tuple[str, str, str]]:
        return [binding for binding in super().get_table(exchange) if len(binding) == 3]


class RedisTransport(redis.Transport):
    """Named by CELERY_BROKER_TRANSPORT."""

    Channel = RedisChannel
    # A worker connects again, which repairs keys, instead of ending.
    connection_errors = (*redis.Transport.connection_errors, ResponseError)

    def _deliver(self, message: Any, queue: str | None) -> None:
        if messages.is_ours(message):
            super()._deliver(message, queue)
