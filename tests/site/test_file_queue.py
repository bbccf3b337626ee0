"""The embedded queue after a full disk, with files that are empty, truncated or something else."""

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

from mhb_site import settings
from mhb_site.celery import app

pytestmark = pytest.mark.plain

QUEUE = Queue("mhb", Exchange("mhb"), routing_key="mhb")
FORGED = b'{"body": "e30=", "headers": {"mhb-signature": "0"}, "properties": {"delivery_info": {}}}'
BROKEN = [FORGED, b"[" * 100_000, b"", b'{"body": "e30=", "prope', b"\0" * 300, b"\xff\xfe", b"[]", b"null", b"{}"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("messages", "processed", "control"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[], Connection]]:
    """Return a function that connects like a process that has just started."""
    if settings.ENV.redis_url:
        pytest.skip("the site uses Redis")
    options: dict[str, Any] = {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "processed_folder": str(folder / "processed"),
        "control_folder": str(folder / "control"),
    }
    with ExitStack() as stack:

        def connect() -> Connection:
            connection = stack.enter_context(app.connection_for_write(transport_options=options))
            connection.transport.state.clear()  # type: ignore[attr-defined]  # not in its stub
            return connection

        yield connect
        connect()


@pytest.fixture
def broker(start: Callable[[], Connection]) -> Connection:
    return start()


def send(broker: Connection, text: str) -> None:
    with broker.Producer() as producer:
        producer.publish({"text": text}, exchange=QUEUE.exchange, routing_key="mhb", declare=[QUEUE])


def receive_all(broker: Connection) -> set[str]:
    simple, texts = broker.SimpleQueue(QUEUE), set()  # type: ignore[arg-type]  # its stub accepts names only
    try:
        while True:
            message = simple.get(timeout=0.1)
            message.ack()
            texts.add(message.payload["text"])
    except Empty:
        return texts
    finally:
        simple.close()


def test_unreadable_messages_are_dropped(broker: Connection, folder: Path) -> None:
    send(broker, "first")
    for number, content in enumerate(BROKEN):
        (folder / "messages" / f"0{number}_broken.mhb.msg").write_bytes(content)  # sorted before all others
    send(broker, "last")
    assert receive_all(broker) == {"first", "last"}
    assert not list((folder / "messages").iterdir())
    assert not list((folder / "processed").iterdir())


@pytest.mark.parametrize(
    "content", [b"", b'[["mhb", "", "m', b"\0" * 50, b"7"], ids=["empty", "half", "zeros", "other"]
)
def test_an_unreadable_routing_table_is_rewritten(
    start: Callable[[], Connection], folder: Path, content: bytes
) -> None:
    broker = start()
    send(broker, "before")
    (table,) = (folder / "control").iterdir()
    table.write_bytes(content)
    send(broker, "meanwhile")  # by a process that is already running
    restarted = start()
    send(restarted, "after")
    assert receive_all(restarted) == {"before", "meanwhile", "after"}
    assert b"mhb" in table.read_bytes()


def test_a_full_disk_leaves_no_partial_message(
    broker: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker, "before")

    def write_to_full_disk(self: Path, text: str) -> None:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_to_full_disk)
        with pytest.raises((OSError, OperationalError)):  # both are left to the sweeper (review.common.waking)
            send(broker, "lost")
    assert [path.suffix for path in (folder / "messages").iterdir()] == [".msg"]
    assert receive_all(broker) == {"before"}
