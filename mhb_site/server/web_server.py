"""The web server: gunicorn manages the processes, waitress serves the clients.

gunicorn's own threads hold a connection while they read its request and write its response, so a
handful of slow clients can block a process. Waitress does both in one loop beside the threads: a
thread only sees complete requests and produces complete responses. This module adds what waitress
lacks: a client must keep up a minimum pace, and when there is no room for another client, the
slowest is disconnected.
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

MAX_CONNECTIONS = 500  # per process
MAX_OPEN_FILES = 4096  # per process: each client may need three (connection, body, response)
MAX_HEADERS = 64 * 2**10  # bytes of request line and headers
MAX_BODY = 2**30  # bytes of a request: the largest source files
MAX_ARRIVING = 4 * 2**30  # bytes of all bodies that a process is receiving, in temporary files
# Bytes of a body or an unread response in memory; larger ones go to temporary files.
IN_MEMORY = 64 * 2**10
GRACE = 20.0  # seconds that a client may lag behind
PACE = 1024  # bytes a second that count as keeping up
# Idle seconds; longer than proxies keep connections, or they would send into a closed one.
KEEP_ALIVE = 75.0
CHECK_INTERVAL = 1.0  # seconds between two checks of all clients
TURNS = 2  # requests of a process that compute at once: one may be waiting for the database
TURN_TIMEOUT = 0.1  # seconds that a request waits for its turn, as long requests may have them all

ResponseBody = Iterable[bytes]


class RequestTimeout(Error):  # type: ignore[misc]
    """A client was too slow to send its request."""

    code = 408
    reason = "Request Timeout"


class Refusal(ErrorTask):  # type: ignore[misc]
    """A refusal by the server itself, in one line that does not name the server software."""

    def execute(self) -> None:
        error = self.request.error
        body = f"{error.reason}\n".encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "text/plain; charset=utf-8"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Client(HTTPChannel):  # type: ignore[misc]
    """A connection, and how far its client lags behind.

    A client is sending a request, reading a response, waiting for us, or idle.
    """

    error_task_class = Refusal
    request: Any  # the one being received, or None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.response_count = 0
        self.held = False  # the next request waits until the previous response has been read
        self._activity: tuple[object, ...] = ()
        self._checked_at = time.monotonic()
        self._moved = 0  # bytes since the last check
        self._late = 0.0  # seconds

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
        self.response_count += 1

    def handle_write(self) -> None:
        super().handle_write()
        with self.outbuf_lock:
            resumes = self.held and not self.total_outbufs_len and self.connected
            self.held = self.held and not resumes
        if resumes:
            self.server.add_task(self)

    @property
    def waiting_for_us(self) -> bool:
        """Whether a complete request is waiting for its response."""
        return bool(self.requests) and not self.held

    @property
    def sending_request(self) -> bool:
        return self.request is not None and not self.requests

    @property
    def idle(self) -> bool:
        return not (self.request or self.requests or self.total_outbufs_len)

    @property
    def arriving(self) -> int:
        """The bytes of the body received so far."""
        return self.request.body_bytes_received if self.sending_request else 0

    def lag(self, now: float) -> float:
        """The seconds that the client lags behind.

        Bytes sent early are no credit, and a client that waits for us is never late.
        """
        activity = (self.sending_request, self.idle, self.waiting_for_us, self.response_count)
        if activity != self._activity or self.waiting_for_us:
            self._late = 0.0
        else:
            self._late = max(0.0, self._late + now - self._checked_at - self._moved / PACE)
        self._activity, self._checked_at, self._moved = activity, now, 0
        return self._late

    def cut_off_if_late(self, now: float) -> None:
        if self.lag(now) > (KEEP_ALIVE if self.idle and self.response_count else GRACE):
            self.time_out()

    def time_out(self) -> None:
        """Disconnect the client, with an explanation if it was sending a request."""
        if not self.sending_request:
            self.handle_close()  # will_close would wait until the client reads
            return
        refusal = HTTPRequestParser(self.adj)
        refusal.error = RequestTimeout("")
        with self.requests_lock:
            self.request.close()
            self.request = None
            self.requests.append(refusal)
            self.server.add_task(self)


class Server(TcpWSGIServer):  # type: ignore[misc]
    """A listening socket and its clients."""

    channel_class = Client

    @property
    def clients(self) -> list[Client]:
        return list(self.active_channels.values())

    def add_task(self, client: Client) -> None:
        with client.outbuf_lock:
            # Only one response at a time is kept for a client, however many requests it has
            # pipelined.
            client.held = bool(client.total_outbufs_len)
        if not client.held:
            super().add_task(client)

    def handle_accept(self) -> None:
        super().handle_accept()
        if len(self.active_channels) > MAX_CONNECTIONS:
            now = time.monotonic()
            # Of equally slow clients, the newest.
            max(reversed(self.clients), key=lambda client: client.lag(now)).handle_close()

    def maintenance(self, _now: float) -> None:
        """Disconnect clients that are too slow or send too much.

        Called by waitress every CHECK_INTERVAL.
        """
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
    """A gunicorn worker process that serves with waitress.

    When stopped, it finishes requests in progress.
    """

    def run(self) -> None:
        raise_open_file_limit()
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(self.cfg.threads)
        adjustments = Adjustments(
            threads=self.cfg.threads,
            backlog=self.cfg.backlog,
            ident=None,
            # Django decides which proxies to trust (MHB_HTTPS, MHB_TRUSTED_PROXIES); REMOTE_ADDR
            # stays the peer's address.
            clear_untrusted_proxy_headers=False,
            connection_limit=MAX_OPEN_FILES,  # Server makes room earlier, and never stops listening
            cleanup_interval=CHECK_INTERVAL,
            max_request_header_size=MAX_HEADERS,
            max_request_body_size=MAX_BODY,
            inbuf_overflow=IN_MEMORY,
            outbuf_overflow=IN_MEMORY,
            outbuf_high_watermark=2**62,  # above this, a thread would wait for the client
        )
        self.poller: dict[int, Any] = {}
        self.turns = Semaphore(TURNS)
        self.servers = [
            Server(
                self.respond,
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
            self.serve_ready(CHECK_INTERVAL)
        for server in self.servers:
            server.stop_listening()
        deadline = time.monotonic() + float(self.cfg.graceful_timeout)
        self.serve_ready(0.1)  # answer what has already arrived
        while time.monotonic() < deadline and (clients := list(self.clients())):
            now = time.monotonic()
            for client in clients:
                if client.idle:
                    client.will_close = True
                else:
                    client.cut_off_if_late(now)
            self.serve_ready(0.1)

    def serve_ready(self, seconds: float) -> None:
        """Serve the clients that are ready to read or write, and tell gunicorn we are alive."""
        self.notify()
        poll2(seconds, self.poller)

    def clients(self) -> Iterator[Client]:
        for server in self.servers:
            yield from server.clients

    def respond(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> ResponseBody:
        """The application's response; without its body for HEAD, as servers must omit it."""
        # Threads that compute at the same time share one interpreter, so all of them would finish
        # late.
        has_turn = self.turns.acquire(timeout=TURN_TIMEOUT)
        try:
            body: ResponseBody = self.wsgi(environ, start_response)
        finally:
            if has_turn:
                self.turns.release()
        if environ["REQUEST_METHOD"] != "HEAD":
            return body
        if close := getattr(body, "close", None):
            close()
        return []

    def handle_exit(self, _signal: int, _frame: object) -> None:
        self.alive = False
        for server in getattr(self, "servers", []):
            server.pull_trigger()  # else the loop stays asleep


def raise_open_file_limit() -> None:
    """Raise the limit of open files of this process as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
