"""PostgreSQL behind a pool that checks the socket of a connection before a request gets it.

A server that is gone has closed its end of the socket, which is visible without a query. Django's
own health check sends one: an additional round trip for every request.
"""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class LifoConnectionPool(ConnectionPool):
    """Hands out the connection that was returned last.

    It has prepared the frequent statements already, and surplus connections stay unused until the
    pool closes them.
    """

    def _get_ready_connection(self, timeout: float | None) -> Any:
        self._pool.rotate()
        return super()._get_ready_connection(timeout)


class DatabaseWrapper(base.DatabaseWrapper):
    """Hands out connections that are alive."""

    @property
    def pool(self) -> Any:
        pool = super().pool
        if pool is not None:
            pool.__class__ = LifoConnectionPool  # Django hard-codes the class
        return pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection of the pool; dead ones (PostgreSQL restarted) are returned and replaced."""
        while True:
            connection = super().get_new_connection(conn_params)
            if self.pool is None:
                return connection
            try:
                if _has_data(connection.fileno()):
                    ConnectionPool.check_connection(connection)  # the data may be just a notice
                return connection
            except psycopg.OperationalError:
                self.pool.putconn(connection)


def _has_data(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
