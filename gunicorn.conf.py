"""gunicorn's configuration, which it reads by itself.

Its threads hold a connection while they read and write, so a handful of slow clients could stop a
process: it belongs behind a proxy that buffers (mhb_site/server/nginx.conf).
"""

import os
import shutil
import tempfile
from typing import Any

# In which the workers count requests together; before they load prometheus_client.
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="mhb-metrics-"))
threads = 8
worker_class = "mhb_site.server.probe_worker.ProbeWorker"
limit_request_line = 8190  # the most that it allows: the site refuses from 4,096 bytes on, in its own words
loglevel = "warning"
control_socket_disable = True  # unused


def child_exit(_server: object, worker: Any) -> None:
    """Drop what only a living worker counts."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)


def on_exit(_server: object) -> None:
    """Remove the counts."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)


def post_worker_init(_worker: object) -> None:
    """Say why the site is not ready, if it is not."""
    from mhb_site.server import startup

    startup.is_ready()
