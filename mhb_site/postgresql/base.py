"""Django's PostgreSQL behind the breaker."""

from typing import Any

from django.db.backends.postgresql import base

from mhb_site.postgresql.breaker import breaker


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, which asks the breaker before it waits for a connection."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        with breaker.attempt():
            return super().get_new_connection(conn_params)
