"""Runs the reader of a foreign file in a process of its own, with limits.

A file of a few bytes can unfold to gigabytes, recurse until the process crashes, or keep a decoder
busy for minutes. So whatever is not plain text is opened only here: the process has limits of
memory, computing time and waiting time, knows none of the site's secrets, yields to all other
processes, and sends what it has read as lines of JSON of limited length. When a limit is hit,
`LimitsExceeded` names it.

`stream` is the parent's side. It starts a new interpreter and forks nothing, so it may be called
from any thread of any process. Limits of memory are the kernel's on Linux. On other systems, which
may not keep to them, the process compares its size with the limit between two entries.
"""

import contextlib
import errno
import importlib
import json
import logging
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any, cast

from generation.common.formats import FormatError
from generation.common.temporary import temporary_folder

MAX_LINE = 64 * 2**20  # bytes of one entry, as JSON
MAX_ENTRIES = 20_000_000
MAX_OUTPUT = 32 * 2**30  # bytes of all entries
MAX_UNPACKED_FILE = 4 * 2**30  # bytes of a temporary file
TOTAL_SECONDS = 4 * 60 * 60  # of computing, for the whole file
PATIENCE = 4  # times the seconds of computing that may pass until the next entry
SILENCE = 1.0  # seconds without an entry after which the caller is told

_ROOT = Path(__file__).resolve().parents[2]
_NICENESS = 10

log = logging.getLogger(__name__)


class LimitsExceeded(FormatError):
    """Reading this file would exceed the memory, time or size limits."""


class ReaderFailed(RuntimeError):
    """The reader itself is broken; the log has its traceback."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader may use. `seconds`: of computing, until its next entry."""

    memory: int
    seconds: int
    total_seconds: int = TOTAL_SECONDS
    entries: int = MAX_ENTRIES
    output: int = MAX_OUTPUT
    patience: int = PATIENCE

    @property
    def waiting(self) -> int:
        """Seconds that may pass until the next entry."""
        return self.patience * self.seconds


def configured() -> Limits:
    """The limits that the settings name."""
    from django.conf import settings  # the process of the reader has none

    return Limits(memory=settings.MHB_READER_MEMORY, seconds=settings.MHB_READER_SECONDS)


def stream(
    reader: Callable[..., Iterable[Any]],
    *arguments: Any,
    raises: Iterable[type[Exception]] = (),
    limits: Limits | None = None,
    while_silent: Callable[[], object] = lambda: None,
) -> Iterator[Any]:
    """What `reader(*arguments)` yields, in a process of its own, which ends with this iterator.

    Args:
        reader: a function at the top of a module; its arguments and what it yields are JSON.
        raises: errors of the reader to raise again here; they are made from one text.
        while_silent: called every `SILENCE` seconds while the process lives and sends nothing, so
            that the caller can keep what it holds.

    Raises:
        LimitsExceeded: it needs more than `limits` (default: `configured`); the text says which.
        OSError: a file could not be read.
        ReaderFailed: any other error.
    """
    limits = limits or configured()
    errors: list[type[Exception]] = [LimitsExceeded, *raises]
    known = {error.__name__: error for error in errors}
    count = size = 0
    task = [reader.__module__, reader.__qualname__, list(arguments), list(known), asdict(limits)]
    with _process(json.dumps(task)) as process:
        for line in _lines(cast(IO[bytes], process.stdout), while_silent):
            word, value = json.loads(line.decode("utf-8", "surrogatepass"))
            match word:
                case "entry":
                    count, size = count + 1, size + len(line)
                    if count > limits.entries:
                        raise LimitsExceeded(f"It has more than {limits.entries:,} entries.")
                    if size > limits.output:
                        raise LimitsExceeded(f"It has more than {limits.output:,} bytes, unpacked.")
                    yield value
                case "end":
                    return
                case "known":
                    raise known[value[0]](value[1])
                case "system":
                    raise OSError(*value)
                case "failed":
                    log.error("the reader %s failed: %s\n%s", reader.__qualname__, *value)
                    raise ReaderFailed(value[0])
        raise LimitsExceeded(_limit_hit(process.wait(), limits, count))


def _lines(pipe: IO[bytes], while_silent: Callable[[], object]) -> Iterator[bytes]:
    """The whole lines that arrive, until the other side ends or a line is longer than allowed."""
    begun = bytearray()
    arrival = select.poll()
    arrival.register(pipe, select.POLLIN)
    while len(begun) <= MAX_LINE:
        while not arrival.poll(1000 * SILENCE):
            while_silent()
        part = os.read(pipe.fileno(), 2**18)
        if not part:
            return
        first, *others = part.split(b"\n")
        begun += first
        for other in others:
            yield bytes(begun)
            begun = bytearray(other)


def _limit_hit(status: int, limits: Limits, count: int) -> str:
    """The limit at which the process ended, in words."""
    after = "Its beginning"
    if count:
        after = f"What follows entry {count}"
    match -status:
        case signal.SIGALRM:
            return f"{after} takes longer than {limits.waiting} seconds."
        case signal.SIGPROF:
            return f"{after} takes more than {limits.seconds} seconds of computing."
        case signal.SIGXCPU:
            return f"It takes more than {limits.total_seconds:,} seconds of computing."
    return f"{after} needs more than {limits.memory // 2**20:,} MB of memory, or is damaged."


@contextlib.contextmanager
def _process(task: str) -> Iterator[Popen[bytes]]:
    names = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX")
    with temporary_folder() as folder:
        environment = {name: os.environ[name] for name in names if name in os.environ} | {
            "TMPDIR": str(folder),  # what it unpacks is removed here, however it ends
            # Each thread of a library reserves memory, which counts to the limit.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "MALLOC_ARENA_MAX": "2",
        }
        command = [sys.executable, "-m", __name__, task]
        with Popen(  # noqa: S603 - our own program
            command, bufsize=0, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, cwd=_ROOT, env=environment
        ) as process:
            try:
                yield process
            finally:
                process.kill()


# ----------------------------------------------------------------------- the process of the reader


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak * 1024


def _confine(limits: Limits) -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_CPU, limits.total_seconds),
        (resource.RLIMIT_FSIZE, MAX_UNPACKED_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        # The first one has a signal of its own.
        hard = limit
        if kind == resource.RLIMIT_CPU:
            hard = limit + 10
        with contextlib.suppress(ValueError, OSError):  # a system that does not know this limit
            resource.setrlimit(kind, (limit, hard))
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)


def _main(module: str, function: str, arguments: list[Any], known: list[str], allowed: dict[str, int]) -> None:
    limits = Limits(**allowed)

    def start_clocks() -> None:
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        signal.setitimer(signal.ITIMER_REAL, limits.waiting)

    def send(word: str, value: Any = None) -> None:
        """Send an entry, and restart the clocks for the next one."""
        line = json.dumps([word, value], ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        if len(line) > MAX_LINE:
            raise LimitsExceeded(f"An entry of it has more than {MAX_LINE:,} bytes.")
        signal.setitimer(signal.ITIMER_REAL, 0)  # the parent may read slowly
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        if sys.platform != "linux" and _peak_memory() > limits.memory:
            raise MemoryError
        start_clocks()

    _confine(limits)
    start_clocks()
    try:
        # Imported only now, so that the limits apply to what it imports as well.
        reader = cast(Callable[..., Iterable[Any]], getattr(importlib.import_module(module), function))
        for entry in reader(*arguments):
            send("entry", entry)
        send("end")
    except MemoryError:
        os._exit(1)
    except BrokenPipeError:
        os._exit(0)
    except Exception as error:
        name = type(error).__name__
        if name in known:
            send("known", [name, getattr(error, "detail", str(error))])
        elif isinstance(error, OSError) and error.errno == errno.EFBIG:
            text = f"A file in it has more than {MAX_UNPACKED_FILE:,} bytes, unpacked."
            send("known", [LimitsExceeded.__name__, text])
        elif isinstance(error, OSError) and error.errno:
            send("system", [error.errno, error.strerror, error.filename])
        else:  # without its text, which may quote the file
            send("failed", [name, "".join(traceback.format_tb(error.__traceback__))])


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
