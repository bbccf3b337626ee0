"""gunicorn's configuration, which it reads by itself.

Its threads hold a connection while they read and write, so a handful of slow clients could stop a
process: it belongs behind a proxy that buffers (mhb_site/server/nginx.conf).
"""

threads = 8
limit_request_line = 8190  # the most that it allows: the site refuses from 4,096 bytes on, in its own words
loglevel = "warning"
control_socket_disable = True  # unused


def post_worker_init(_worker: object) -> None:
    """Say why the site is not ready, if it is not."""
    from mhb_site.server import startup

    startup.is_ready()
