"""gunicorn's worker with threads, which answers probes beside them."""

import os
import re
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gunicorn.workers.gthread import _DEFER, ThreadWorker

BEGINNING = 300  # bytes of a request, which hold the address of a probe
PROBE_THREADS = 4
_SUB_PATH = re.escape(os.environ.get("MHB_SUB_PATH", "").strip("/").encode())
PROBE = re.compile(rb"(?:GET|HEAD) (?:/" + _SUB_PATH + rb")?/(?:live|ready|metrics)/?[ ?]")


class ProbeWorker(ThreadWorker):  # type: ignore[misc]
    """Threads of their own answer /live, /ready and /metrics.

    Requests that wait for a database or a provider may hold all others; an orchestrator that gets
    no answer would then kill a process that is well.
    """

    def init_process(self) -> None:
        self._probes = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="probes")
        super().init_process()

    def enqueue_req(self, conn: Any) -> None:
        """Submit a connection to the threads that its request needs, once it has begun."""
        beginning = _beginning(conn.sock)
        if beginning is None and not (conn.initialized or conn.data_ready):
            silent: Future[object] = Future()
            silent.set_result(_DEFER)  # as gunicorn does with a client that sends nothing for long
            self.finish_request(conn, silent)
            return
        if PROBE.match(beginning or b""):
            threads = self._probes
        else:
            threads = self.tpool
        future = threads.submit(self.handle, conn)
        future.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))


def _beginning(client: socket.socket) -> bytes | None:
    """What a client has sent so far, left where it is; None if it has sent nothing."""
    try:
        return client.recv(BEGINNING, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""
