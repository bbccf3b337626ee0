"""PostgreSQL behind a pool whose connections are looked at, and not asked, before a request gets one.

A server that has gone away has closed its end, which can be seen without a word to it. Django's own health check asks each
time: a round trip more for every request.
"""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class LastFirst(ConnectionPool):
    """Hands out the connection that came back last: what is asked often is prepared on it already, and those that are too many
    are left alone until the pool closes them."""

    def _get_ready_connection(self, timeout: float | None) -> Any:
        self._pool.rotate()
        return super()._get_ready_connection(timeout)


class DatabaseWrapper(base.DatabaseWrapper):
    """Hands out connections that live."""

    @property
    def pool(self) -> Any:
        pool = super().pool
        if pool is not None:
            pool.__class__ = LastFirst  # Django names the class itself
        return pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """One of the pool's; those that died with a restart of PostgreSQL are given back to it and replaced."""
        while True:
            connection = super().get_new_connection(conn_params)
            if self.pool is None:
                return connection
            try:
                if _has_news(connection.fileno()):
                    ConnectionPool.check_connection(connection)  # it may be a notice
                return connection
            except psycopg.OperationalError:
                self.pool.putconn(connection)


def _has_news(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
