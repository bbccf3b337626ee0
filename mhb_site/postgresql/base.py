"""Django's PostgreSQL behind the breaker, with a pool that survives a restart of the server."""

from typing import Any

import psycopg
from django.db.backends.postgresql import base

from mhb_site.postgresql.breaker import breaker
from mhb_site.postgresql.hanging import server

FIRST_SECONDS = 5  # that a command or worker waits for its first connection


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, which lends only connections that live, and in web processes asks the breaker."""

    was_reached = False  # by this process: before, the pool would wait for a server that refuses at once

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if not self.pool:
            return super().get_new_connection(conn_params)

        def connect() -> None:
            self.Database.connect(**{"connect_timeout": FIRST_SECONDS, **conn_params}).close()
            server.hangs = False

        if not breaker.engaged:
            if not DatabaseWrapper.was_reached:
                connect()
                DatabaseWrapper.was_reached = True
            return self._living(conn_params)
        if breaker.is_open:
            breaker.attempt(connect)
        try:
            return self._living(conn_params)
        except psycopg.OperationalError:  # also where all connections are lent
            breaker.is_open = True
            breaker.attempt(connect)
            return self._living(conn_params)

    def _living(self, conn_params: dict[str, Any]) -> Any:
        """A connection of the pool that still answers.

        The pool's own check sleeps a second after the second dead connection; after a restart of
        the server all of them are dead.
        """
        for _ in range(self.pool.max_size):
            connection = super().get_new_connection(conn_params)
            try:
                self.pool.check_connection(connection)
            except psycopg.OperationalError:
                self.pool.putconn(connection)  # it makes another in its place
                if server.hangs:
                    raise
            else:
                return connection
        return super().get_new_connection(conn_params)
