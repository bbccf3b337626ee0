"""The embedded site's broker: kombu's file queue, made tolerant of unreadable files.

A full disk leaves empty or truncated files behind. A worker of plain kombu takes one and crashes,
and the next worker takes the next one.
"""

import contextlib
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.transport import filesystem, virtual
from kombu.utils.json import dumps

from mhb_site.server import messages


class Channel(filesystem.Channel):
    """Messages as files, written completely or not at all."""

    def _put(self, queue: str, payload: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[override]
        # Kombu writes into the folder that workers read: they could take a half-written file.
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        messages.sign(payload)
        unfinished = Path(self.data_folder_out) / f"{name}.unfinished"
        try:
            unfinished.write_text(dumps(payload))
            unfinished.rename(unfinished.with_name(name))
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        while True:  # ends, because each message taken is removed
            try:
                message = super()._get(queue)
            except (RecursionError, ValueError):
                message = None
            if messages.is_ours(message):
                return message

    def get_table(self, exchange: str) -> Any:
        try:
            return super().get_table(exchange)
        except (ValueError, TypeError):
            return virtual.Channel.get_table(self, exchange)  # the bindings of this process

    def _queue_bind(self, exchange: str, *binding: Any) -> None:
        try:
            super()._queue_bind(exchange, *binding)
        except (ValueError, TypeError):
            (self.control_folder / f"{exchange}.exchange").unlink(missing_ok=True)
            super()._queue_bind(exchange, *binding)


class FileTransport(filesystem.Transport):
    """Named by CELERY_BROKER_TRANSPORT."""

    Channel = Channel
