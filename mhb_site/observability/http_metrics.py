"""What a web process counts itself: requests by route and status, with their times.

gunicorn's workers count in files of a common folder (`PROMETHEUS_MULTIPROC_DIR`, gunicorn.conf.py),
so each of them gives the sums of all.
"""

import os

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

BUCKETS = (0.1, 0.3, 1, 3, 10)  # seconds
REQUESTS = Histogram(
    "mhb_http_request_seconds",
    "Time of requests by route and status.",
    ["method", "route", "status"],
    buckets=BUCKETS,
    registry=None,
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # others are a client's invention


def count(method: str | None, route: str, status: int, seconds: float) -> None:
    """Count a request."""
    known = "other"
    if method in METHODS:
        known = method
    REQUESTS.labels(known, route, str(status)).observe(seconds)


def register(registry: CollectorRegistry) -> None:
    """Add the counts to a registry."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REQUESTS)
