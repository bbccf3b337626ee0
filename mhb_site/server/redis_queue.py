"""The broker of a site with Redis: kombu's, which drops what the site did not send itself."""

import logging
from queue import Empty
from typing import Any

from kombu.transport import redis

from mhb_site.server import messages

log = logging.getLogger(__name__)

UNREADABLE = (
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)  # of what is no JSON, or nested without end


class RedisChannel(redis.Channel):
    """Messages as JSON in a list of Redis, signed."""

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

    def _deliver(self, message: Any, queue: str | None) -> None:
        if messages.is_ours(message):
            super()._deliver(message, queue)
