"""The web server: gunicorn starts and watches the processes, waitress speaks with the clients.

gunicorn's own threads read a request and write its answer while they hold the client's connection, so that a handful of
slow clients stop a process. Waitress does both in one loop beside the threads: a thread only ever sees a whole request,
and leaves a whole answer. What waitress lets pass is added here: a client has to keep moving, and where there is no room
for another client, the one who lags most makes room.
"""

import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Semaphore
from typing import Any

from gunicorn.workers.base import Worker
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher
from waitress.utilities import Error
from waitress.wasyncore import dispatcher as Dispatcher
from waitress.wasyncore import poll2

MAX_CONNECTIONS = 500  # of a process
MAX_OPEN_FILES = 4096  # of a process: each client may need three (connection, body, answer)
MAX_HEADERS = 64 * 2**10  # bytes of request line and headers
MAX_BODY = 2**30  # bytes of a request: the largest source files
MAX_ARRIVING = 4 * 2**30  # bytes of all bodies that a process is receiving; they lie in temporary files
IN_MEMORY = 64 * 2**10  # bytes of a body, or of an answer that waits for its reader; beyond them in a temporary file
GRACE = 20.0  # seconds that a client may lag behind
PACE = 1024  # bytes a second that count as keeping up
KEEP_ALIVE = 75.0  # seconds without a request; longer than proxies keep theirs, or they send into a closed connection
LOOK = 1.0  # seconds between two looks at all clients
TURNS = 2  # requests of a process that compute at once: one may wait for the database meanwhile
PATIENCE = 0.1  # seconds that a request waits for its turn: long ones may have them all

Answer = Iterable[bytes]


class RequestTimeout(Error):  # type: ignore[misc]
    """A client was too slow to say what it wants."""

    code = 408
    reason = "Request Timeout"


class Refusal(ErrorTask):  # type: ignore[misc]
    """What the server itself refuses, in one line that does not say which server it is."""

    def execute(self) -> None:
        error = self.request.error
        body = f"{error.reason}\n".encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "text/plain; charset=utf-8"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Client(HTTPChannel):  # type: ignore[misc]
    """A connection, and how far its client lags behind in what it is at: asking, reading the answer, or nothing."""

    error_task_class = Refusal
    request: Any  # that is being read, or None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answered = 0
        self.held = False  # the next request waits until the answer before it has been read
        self._at: tuple[object, ...] = ()
        self._seen = time.monotonic()
        self._moved = 0  # bytes since then
        self._late = 0.0

    def recv(self, size: int) -> bytes:
        data: bytes = super().recv(size)
        self._moved += len(data)
        return data

    def send(self, data: bytes, **kwargs: Any) -> int:
        sent: int = super().send(data, **kwargs)
        self._moved += sent
        return sent

    def service(self) -> None:
        super().service()
        self.answered += 1

    def handle_write(self) -> None:
        super().handle_write()
        with self.outbuf_lock:
            go_on = self.held and not self.total_outbufs_len and self.connected
            self.held = self.held and not go_on
        if go_on:
            self.server.add_task(self)

    @property
    def served(self) -> bool:
        """Whether it is us who are to do something."""
        return bool(self.requests) and not self.held

    @property
    def asking(self) -> bool:
        return self.request is not None and not self.requests

    @property
    def idle(self) -> bool:
        return not (self.request or self.requests or self.total_outbufs_len)

    @property
    def arriving(self) -> int:
        """The bytes of the body that have come so far."""
        return self.request.body_bytes_received if self.asking else 0

    def lag(self, now: float) -> float:
        """The seconds that the client is behind. Bytes in advance are no credit, and nobody is late who waits for us."""
        at = (self.asking, self.idle, self.served, self.answered)
        if at != self._at or self.served:
            self._late = 0.0
        else:
            self._late = max(0.0, self._late + now - self._seen - self._moved / PACE)
        self._at, self._seen, self._moved = at, now, 0
        return self._late

    def cut_off_if_late(self, now: float) -> None:
        if self.lag(now) > (KEEP_ALIVE if self.idle and self.answered else GRACE):
            self.time_out()

    def time_out(self) -> None:
        """Tell a client that was asking why it is cut off; one that asked nothing, or does not read, is just cut off."""
        if not self.asking:
            self.handle_close()  # will_close would wait until the client reads
            return
        refused = HTTPRequestParser(self.adj)
        refused.error = RequestTimeout("")
        with self.requests_lock:
            self.request.close()
            self.request = None
            self.requests.append(refused)
            self.server.add_task(self)


class Server(TcpWSGIServer):  # type: ignore[misc]
    """A listening socket and its clients."""

    channel_class = Client

    @property
    def clients(self) -> list[Client]:
        return list(self.active_channels.values())

    def add_task(self, client: Client) -> None:
        with client.outbuf_lock:
            # One answer at a time lies here for a client, however many requests it has sent in one go.
            client.held = bool(client.total_outbufs_len)
        if not client.held:
            super().add_task(client)

    def handle_accept(self) -> None:
        super().handle_accept()
        if len(self.active_channels) > MAX_CONNECTIONS:
            now = time.monotonic()
            max(reversed(self.clients), key=lambda client: client.lag(now)).handle_close()  # of equals the newest

    def maintenance(self, _now: float) -> None:
        """See to it that clients move. Called by waitress, every LOOK seconds."""
        now = time.monotonic()
        for client in self.clients:
            client.cut_off_if_late(now)
        arriving = sorted(self.clients, key=lambda client: client.arriving)
        total = sum(client.arriving for client in arriving)
        while total > MAX_ARRIVING:
            largest = arriving.pop()
            total -= largest.arriving
            largest.handle_close()

    def stop_listening(self) -> None:
        Dispatcher.close(self)


class BufferingWorker(Worker):  # type: ignore[misc]
    """A process of gunicorn's that serves with waitress. Stopped, it brings to its end what clients have begun."""

    def run(self) -> None:
        allow_open_files()
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(self.cfg.threads)
        adjustments = Adjustments(
            threads=self.cfg.threads,
            backlog=self.cfg.backlog,
            ident=None,
            # Django decides whom it believes (MHB_HTTPS, MHB_TRUSTED_PROXIES); REMOTE_ADDR stays the peer's address.
            clear_untrusted_proxy_headers=False,
            connection_limit=MAX_OPEN_FILES,  # Server makes room earlier, and never stops to listen
            cleanup_interval=LOOK,
            max_request_header_size=MAX_HEADERS,
            max_request_body_size=MAX_BODY,
            inbuf_overflow=IN_MEMORY,
            outbuf_overflow=IN_MEMORY,
            outbuf_high_watermark=2**62,  # above it a thread would wait for the client
        )
        self.poller: dict[int, Any] = {}
        self.turns = Semaphore(TURNS)
        self.servers = [
            Server(
                self.answer,
                self.poller,
                True,
                listener.sock,
                dispatcher=dispatcher,
                adj=adjustments,
                bind_socket=False,
                sockinfo=(listener.sock.family, listener.sock.type, listener.sock.proto, listener.sock.getsockname()),
            )
            for listener in self.sockets
        ]
        while self.alive and os.getppid() == self.ppid:
            self.turn(LOOK)
        for server in self.servers:
            server.stop_listening()
        end = time.monotonic() + float(self.cfg.graceful_timeout)
        self.turn(0.1)  # what has arrived by now is answered
        while time.monotonic() < end and (clients := list(self.clients())):
            now = time.monotonic()
            for client in clients:
                if client.idle:
                    client.will_close = True
                else:
                    client.cut_off_if_late(now)
            self.turn(0.1)

    def turn(self, seconds: float) -> None:
        """Serve every client that can be read from or written to, and tell gunicorn that we live."""
        self.notify()
        poll2(seconds, self.poller)

    def clients(self) -> Iterator[Client]:
        for server in self.servers:
            yield from server.clients

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Answer:
        """The application's answer; to HEAD without the body, which is the server's to leave out."""
        # Threads that compute side by side share one interpreter, and all of them end late.
        has_turn = self.turns.acquire(timeout=PATIENCE)
        try:
            answer: Answer = self.wsgi(environ, start_response)
        finally:
            if has_turn:
                self.turns.release()
        if environ["REQUEST_METHOD"] != "HEAD":
            return answer
        if close := getattr(answer, "close", None):
            close()
        return []

    def handle_exit(self, _signal: int, _frame: object) -> None:
        self.alive = False
        for server in getattr(self, "servers", []):
            server.pull_trigger()  # else the loop sleeps on


def allow_open_files() -> None:
    """Raise this process's own limit of open files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
