"""The pool replaces dead connections before a request gets them."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from bench import servers
from mhb_site.postgresql import hanging
from mhb_site.postgresql.base import DatabaseWrapper
from mhb_site.postgresql.breaker import CONNECT_SECONDS, SECONDS, breaker
from mhb_site.postgresql.hanging import HangingServer, WatchedConnection, server
from mhb_site.server import startup

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_a_dead_connection_is_replaced() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL only")
    request = connections.create_connection("default")
    pids = []
    for _ in range(2):
        with request.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
        request.close()  # back to the pool
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pids[-1]])
        time.sleep(0.2)
    assert len(set(pids)) == 2


@pytest.fixture
def pooled() -> Iterator[Callable[[], BaseDatabaseWrapper]]:
    """New connections of a web process, with a pool of their own."""
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL only")

    def create() -> BaseDatabaseWrapper:
        created = connection.copy(alias="of_the_web")
        created.settings_dict["OPTIONS"]["pool"] |= {"timeout": SECONDS, "reconnect_timeout": 0}
        return created

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(breaker, "engaged", True)
        patch.setattr(breaker, "is_open", False)
        patch.setattr(server, "hangs", False)
        yield create
        create().close_pool()  # type: ignore[attr-defined]


def test_a_pool_of_dead_connections_keeps_no_request_waiting(pooled: Callable[[], BaseDatabaseWrapper]) -> None:
    """As after a restart of PostgreSQL, whose first requests all got 503."""
    requests = [pooled() for _ in range(8)]
    pids = []
    for request in requests:
        with request.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
    for request in requests:
        request.close()  # back to the pool
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) AS pid", [pids])
    time.sleep(0.2)
    for request in requests:
        with request.cursor() as cursor:
            cursor.execute("SELECT 1")
    for request in requests:
        request.close()


def test_a_server_that_hangs_keeps_nobody(pooled: Callable[[], BaseDatabaseWrapper]) -> None:
    """Stopped, it closes no connection, and no limit of its own applies."""

    def ask(request: BaseDatabaseWrapper) -> None:
        with pytest.raises(OperationalError), request.cursor() as cursor:
            cursor.execute("SELECT 1")
        request.close()

    with servers.postgres_server(careless=True) as stopped:
        port = int(stopped.url.rpartition(":")[2].partition("/")[0])

        def create() -> BaseDatabaseWrapper:
            request = pooled()
            request.settings_dict |= {"HOST": servers.HOST, "PORT": port, "USER": "mhb", "PASSWORD": "", "NAME": "mhb"}
            options = request.settings_dict["OPTIONS"]
            options["connect_timeout"] = CONNECT_SECONDS
            options["pool"]["connection_class"] = WatchedConnection
            request.inc_thread_sharing()
            return request

        requests = [create() for _ in range(6)]
        for request in requests:
            request.ensure_connection()
        stopped.send(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(len(requests) + 2) as threads:
                list(threads.map(ask, [*requests, create(), create()], timeout=60))
            assert server.hangs
        finally:
            stopped.send(signal.SIGCONT)
        again = create()
        with again.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert not server.hangs
        again.close()


@pytest.mark.plain
@pytest.mark.parametrize("is_heard", [True, False])
def test_a_server_that_answers_others_is_overloaded_and_does_not_hang(
    monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    asked = HangingServer()

    def refuse_a_new_client(_host: str, _port: int) -> bool:
        if is_heard:  # another thread has its rows meanwhile
            asked.hear()
        return False

    ticks = count()
    monkeypatch.setattr(hanging, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(hanging, "answers", refuse_a_new_client)
    asked.hear()  # before: that shows nothing
    assert asked.look("localhost", 5432) is not is_heard


def test_a_command_does_not_wait_for_a_server_that_refuses(
    pooled: Callable[[], BaseDatabaseWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "engaged", False)
    monkeypatch.setattr(DatabaseWrapper, "was_reached", False)
    request = pooled()
    request.settings_dict["PORT"] = servers.free_port()
    with pytest.raises(OperationalError, match="refused"):  # the pool would have waited, and told less
        request.ensure_connection()


def test_lent_connections_are_no_absence(pooled: Callable[[], BaseDatabaseWrapper]) -> None:
    """Who finds all connections lent waits for one; the breaker stays closed for the others."""
    requests = [pooled() for _ in range(connection.settings_dict["OPTIONS"]["pool"]["max_size"])]
    for request in requests:
        request.ensure_connection()
    with pytest.raises(OperationalError, match="couldn't get a connection"):
        pooled().ensure_connection()
    assert not breaker.is_open
    for request in requests:
        request.close()


def test_the_cause_is_told_while_the_breaker_is_open(
    pooled: Callable[[], BaseDatabaseWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "there_is_none")
    with pytest.raises(OperationalError):
        pooled().ensure_connection()
    assert breaker.is_open
    assert 'database "there_is_none" does not exist' in startup.problem()
