"""/live, /ready and /metrics: asked by machines, of one process, without a host or HTTPS."""

import hmac
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from django.conf import settings
from django.db import OperationalError, close_old_connections, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from generation.models import WorkerBeat
from mhb_site.observability import http_metrics
from mhb_site.observability.metrics import Collected, ProcessCollector, SiteCollector
from review.common.site_pause import paused_since

DATABASE_SECONDS = 2.0

RETRY = 0.2  # seconds until a check that could not connect is tried again
# One thread: a database that does not answer holds it, and the next probe fails at once.
_database_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="probe")


class ProbesMiddleware:
    """Answers the probes before any other middleware.

    An orchestrator asks with the address of a process as the host, over plain HTTP; nothing it is
    told is secret, and the metrics need `MHB_METRICS_TOKEN`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in ("/live", "/live/"):
            return HttpResponse("live\n", content_type="text/plain")
        if request.path_info in ("/ready", "/ready/"):
            return ready()
        if request.path_info in ("/metrics", "/metrics/"):
            return metrics(request)
        return self.get_response(request)


def ready() -> JsonResponse:
    """503 if the pages cannot be served: no database within two seconds, or old tables.

    Without Redis, workers of lanes or of short tasks, or the sweeper, and while a restored site is
    paused, people can still review, so the answer is 200 with the status `degraded`; monitoring
    looks at that.
    """
    checks: dict[str, Any] = {"database": _in_time(_database), "redis": _redis()}
    http_status, status = 503, "not ready"
    if checks["database"] == "ok":
        found = _in_time(_tables_and_processes)
        if not isinstance(found, dict):
            found = {"migrations": found}
        checks |= found
        if checks["migrations"] == "ok":
            http_status, status = 200, "degraded"
            if "paused_since" not in checks and all(_is_well(checks[name]) for name in ("redis", "processes")):
                status = "ready"
    return JsonResponse({"status": status, **checks}, status=http_status)


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics, for those who hold `MHB_METRICS_TOKEN`."""
    token = settings.ENV.metrics_token
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not token:
        return HttpResponse("Set MHB_METRICS_TOKEN to offer metrics.\n", status=404, content_type="text/plain")
    if not hmac.compare_digest(given.encode(), token.encode()):
        response = HttpResponse("Send MHB_METRICS_TOKEN as a bearer token.\n", status=401, content_type="text/plain")
        response["WWW-Authenticate"] = "Bearer"
        return response
    registry = CollectorRegistry(auto_describe=False)
    families = _in_time(lambda: list(SiteCollector().collect()))
    is_known = isinstance(families, list)
    if not is_known:
        families = []
    up = GaugeMetricFamily("mhb_database_up", "Whether the database answered within two seconds.", value=int(is_known))
    has_broker = _is_well(_redis())
    broker = GaugeMetricFamily("mhb_redis_up", "Whether Redis answers, if it is used.", value=int(has_broker))
    registry.register(Collected([up, broker, *families]))
    registry.register(ProcessCollector(counts_messages=has_broker))
    http_metrics.register(registry)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _is_well(word: str) -> bool:
    return word in ("ok", "not used")


def _in_time(check: Callable[[], Any]) -> Any:
    """The check's result, or words for its failure; it runs in a thread with its own connection."""
    future = _database_thread.submit(_closing, check)
    try:
        return future.result(DATABASE_SECONDS)
    except TimeoutError:
        future.cancel()
        return f"no answer within {DATABASE_SECONDS:g} s"
    except Exception as error:
        return type(error).__name__


def _closing(check: Callable[[], Any]) -> Any:
    close_old_connections()
    deadline = time.monotonic() + DATABASE_SECONDS
    try:
        while True:
            try:
                return check()
            except OperationalError:  # such as a connection that died with a restart while nobody used it
                connection.close()
                if time.monotonic() + RETRY > deadline:
                    raise
                time.sleep(RETRY)
    finally:
        connection.close()


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _tables_and_processes() -> dict[str, Any]:
    loader = MigrationLoader(connection)
    missing = set(loader.disk_migrations) - set(loader.applied_migrations)
    migrations = "ok"
    if missing:
        migrations = f"{len(missing)} to apply: run migrate"
    # Only while it is, so that a restored site is `degraded` until somebody lets it go on.
    since = paused_since()
    pause = {}
    if since:
        pause = {"paused_since": since.isoformat()}
    return {**pause, "migrations": migrations, **_processes()}


def _processes() -> dict[str, Any]:
    """The age of the last beat of each kind of process, and the kinds of which none is left.

    `workers` and `workers_lost`: those that live, and those that were killed in the last hour.
    """
    now = timezone.now()
    ages: dict[str, float | str] = {"sweeper_age_s": "none", "lanes_age_s": "none", "tasks_age_s": "none"}
    away, workers, lost = ["sweeper", "lanes", "tasks"], 0, 0
    for beat in WorkerBeat.objects.order_by("seen_at"):
        beat_lost = beat.is_lost(now)
        runs = {"sweeper": False, "lanes": beat.runs_lanes, "tasks": beat.runs_tasks}
        if beat.name == WorkerBeat.SWEEPER:
            runs = {"sweeper": True}
        elif beat_lost:
            lost += 1
        else:
            workers += 1
        for kind, does in runs.items():
            if does:
                ages[f"{kind}_age_s"] = round((now - beat.seen_at).total_seconds(), 1)
            if does and not beat_lost and kind in away:
                away.remove(kind)
    processes = "ok"
    if away:
        processes = f"away: {', '.join(away)}"
    return {"processes": processes, "workers": workers, "workers_lost": lost, **ages}


def _redis() -> str:
    if not settings.ENV.redis_url:
        return "not used"
    try:
        with redis.Redis.from_url(settings.ENV.redis_url, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        return type(error).__name__
    return "ok"
