"""Readers of foreign files run in a process of their own, and the limit that one hits is named."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from generation.common import limited, temporary
from generation.common.formats import FormatError
from generation.common.limited import Limits, LimitsExceeded
from generation.common.temporary import temporary_folder

LIMITS = Limits(memory=300 * 2**20, seconds=5)


class Odd(FormatError):
    """This is odd."""


def count(end: int) -> Iterator[int]:
    yield from range(end)


def environment() -> Iterator[Any]:
    yield [os.getpid(), dict(os.environ), "django" in __import__("sys").modules]


def unpack(size: int) -> Iterator[str]:
    import tempfile

    folder = tempfile.mkdtemp()
    (Path(folder) / "unpacked").write_bytes(bytes(size))
    yield folder
    while True:
        yield folder


def allocate() -> Iterator[int]:
    yield 1
    yield len(bytearray(2**31))


def compute() -> Iterator[int]:
    yield 1
    while True:
        pass


def wait() -> Iterator[int]:
    time.sleep(1000)
    yield 1


def crash() -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), 11)


def long_entry() -> Iterator[str]:
    yield "x" * (limited.MAX_LINE + 1)


def refuse() -> Iterator[int]:
    yield 1
    raise Odd("It has three legs.")


def fail() -> Iterator[int]:
    yield 1
    raise KeyError("a line of the file")


def open_missing(path: str) -> Iterator[str]:
    yield Path(path).read_text()


def read(reader: Callable[..., Any], *arguments: Any, limits: Limits = LIMITS, **options: Any) -> list[Any]:
    return list(limited.stream(reader, *arguments, limits=limits, **options))


def test_entries_arrive_in_order_also_in_a_thread() -> None:
    results: list[list[int]] = []
    thread = Thread(target=lambda: results.append(read(count, 5000)))
    thread.start()
    thread.join()
    assert results == [list(range(5000))]


def test_the_process_knows_neither_secrets_nor_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHB_SECRET_KEY", "s" * 40)
    monkeypatch.setenv("MHB_DATABASE_URL", "postgresql://u:p@h/d")
    [[pid, variables, has_django]] = read(environment)
    assert pid != os.getpid()
    assert not [name for name in variables if name.startswith("MHB_")]
    assert not has_django


@pytest.mark.parametrize(
    ("reader", "limits", "named"),
    [
        (allocate, LIMITS, "What follows entry 1 needs more than 300 MB of memory"),
        (crash, LIMITS, "needs more than 300 MB of memory, or is damaged"),
        (compute, Limits(300 * 2**20, seconds=1, patience=100), "more than 1 seconds of computing"),
        (compute, Limits(300 * 2**20, seconds=60, total_seconds=1), "It takes more than 1 seconds of computing"),
        (wait, Limits(300 * 2**20, seconds=1), "Its beginning takes longer than 4 seconds"),
        (long_entry, LIMITS, "An entry of it has more than 67,108,864 bytes"),
    ],
    ids=["memory", "crash", "computing", "computing in all", "waiting", "entry"],
)
def test_the_limit_that_was_hit_is_named(reader: Callable[..., Any], limits: Limits, named: str) -> None:
    with pytest.raises(LimitsExceeded, match=named):
        read(reader, limits=limits)


def test_entries_and_their_bytes_are_counted() -> None:
    with pytest.raises(LimitsExceeded, match="more than 10 entries"):
        read(count, 11, limits=Limits(300 * 2**20, 5, entries=10))
    with pytest.raises(LimitsExceeded, match="more than 100 bytes, unpacked"):
        read(count, 11, limits=Limits(300 * 2**20, 5, output=100))
    assert len(read(count, 10, limits=Limits(300 * 2**20, 5, entries=10))) == 10


def test_errors_of_the_reader_are_raised_again(tmp_path: Path) -> None:
    with pytest.raises(Odd, match=r"This is odd\. It has three legs\."):
        read(refuse, raises=[Odd])
    with pytest.raises(FileNotFoundError):
        read(open_missing, str(tmp_path / "gone"))
    with pytest.raises(limited.ReaderFailed) as failed:
        read(fail)
    assert "a line of the file" not in str(failed.value)


def test_what_was_unpacked_is_removed_however_it_ends() -> None:
    entries = limited.stream(unpack, 1000, limits=LIMITS)
    folder = Path(next(entries))
    assert (folder / "unpacked").stat().st_size == 1000
    entries.close()  # type: ignore[attr-defined]  # it is a generator
    assert not folder.exists()


def test_a_folder_of_a_killed_process_is_removed() -> None:
    program = (
        "import os, signal\nfrom generation.common.temporary import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'text').write_text('A case.')\n    print(folder, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = Path(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True).stdout.strip())
    with temporary_folder() as in_use:
        for folder in (killed, in_use):
            os.utime(folder, (0, 0))
        temporary.remove_orphans()
        assert in_use.exists()
    assert not killed.exists()


def say_late() -> Iterator[int]:
    yield 1
    time.sleep(0.3)
    yield 2


def test_the_caller_hears_of_a_reader_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "SILENCE", 0.01)
    heard: list[int] = []
    entries = limited.stream(say_late, limits=LIMITS, while_silent=lambda: heard.append(1))
    assert next(entries) == 1
    heard.clear()
    assert list(entries) == [2]
    assert heard


def long_lines() -> Iterator[str]:
    yield from ("x" * 2**20, "y\n" * 10, "", "z" * 3 * 2**18)


def test_lines_arrive_as_they_were_sent_however_long() -> None:
    assert list(limited.stream(long_lines, limits=LIMITS)) == list(long_lines())
