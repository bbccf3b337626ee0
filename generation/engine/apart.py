"""Runs code on untrusted text in a process of its own, so that code that hangs stops nothing else.

Python cannot interrupt an expression that runs in a thread, and one that runs away keeps the whole
process from working. So a lane that has such code to run forks a process once, sends it the texts,
and gets the results back one by one. The kernel ends that process if it computes for too long.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from generation.engine.group_commit import Failure, Grouped
from generation.llm.errors import TooSlow

log = logging.getLogger(__name__)

SECONDS = 10  # of processor time for one call; honest ones take milliseconds
WAIT_SECONDS = 120  # for one call, however little it computes
CHECK_PARENT = 5  # seconds after which an idle process looks whether its parent still exists

Request = tuple[Callable[..., Any], tuple[Any, ...]]


class Apart:
    """Runs functions in a process of its own: `await apart(function, *arguments)`.

    The process is a copy of this one, made at the first call, in which `context` is the first
    argument of every function. Functions, arguments and results have to be picklable, and functions
    must use neither the database nor threads. Raises what the function raises, or TooSlow for a
    call that ended the process; the calls after it go to a new one.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._grouped = Grouped(self._outcomes)
        self._pipe: Connection | None = None
        self._pid = 0

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self._grouped((function, arguments))

    async def _outcomes(self, requests: list[Request]) -> list[Any]:
        try:
            return await asyncio.to_thread(self._run, requests)
        except Exception as error:  # an argument that cannot be sent, or no memory for a process
            return [Failure(error) for _ in requests]

    def _run(self, requests: list[Request]) -> list[Any]:
        outcomes: list[Any] = []
        while len(outcomes) < len(requests):
            pipe = self._pipe or self._start()
            try:
                pipe.send(requests[len(outcomes) :])
            except ConnectionError:  # it was ended between two calls, which is no call's fault
                self.close()
                continue
            try:
                while len(outcomes) < len(requests):
                    outcomes.append(pipe.recv())
            except (EOFError, ConnectionError):
                self.close()
                log.error("reading a text took too long: %s", requests[len(outcomes)][0].__qualname__)
                outcomes.append(Failure(TooSlow(f"Limit: {SECONDS} seconds.")))
        return outcomes

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _serve(theirs, self._context)
            finally:
                os._exit(0)  # without the parent's cleaning up
        theirs.close()
        self._pid, self._pipe = pid, ours
        return ours

    def close(self) -> None:
        """End the process, if there is one."""
        if self._pipe is not None:
            self._pipe.close()
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pipe = None


def _serve(pipe: Connection, context: Any) -> None:
    """Answer requests until the parent closes its end, or is gone."""
    gc.freeze()  # what the copy inherited (connections to the database) is the parent's to end
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    parent = os.getppid()
    with contextlib.suppress(EOFError, OSError):
        while True:
            while not pipe.poll(CHECK_PARENT):
                if os.getppid() != parent:
                    return
            for function, arguments in pipe.recv():
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                signal.alarm(WAIT_SECONDS)
                outcome: Any
                try:
                    outcome = function(context, *arguments)
                except Exception as error:
                    outcome = Failure(error)
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.alarm(0)
                pipe.send(outcome)
