"""The pool replaces dead connections before a request gets them."""

import time

import pytest
from django.db import connection, connections

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
