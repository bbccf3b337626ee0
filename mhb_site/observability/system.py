"""The page that shows admins what runs: versions, workers, disk, queues, the last backup."""

import json
import platform
import shutil
from collections.abc import Mapping
from typing import Any

import celery
import django
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation.interchange.provenance.software import software
from generation.models import Job, Lane, WorkerBeat
from generation.models.work import Work
from mhb_site.backup.services import last_backup, resume_site
from mhb_site.observability.metrics import SiteCollector
from mhb_site.observability.probes import ready
from review.common.decorators import redirect_saying, requires
from review.common.site_pause import paused_since
from review.rules.permissions import Can

QUEUES = ("mhb_work_rows", "mhb_imports", "mhb_jobs")  # metrics that count what waits
# What /ready checks. The ages of workers are shown for each of them.
CHECKS = {"status": _("Status"), "database": _("Database"), "redis": "Redis", "migrations": _("Migrations")}
WORDS: Mapping[str, Any] = {
    **dict(Work.Status.choices),
    **dict(Job.Status.choices),
    "ready": _("ready"),
    "not ready": _("not ready"),
    "degraded": _("degraded"),
    "ok": _("OK"),
    "not used": _("not used"),
    "batch": _("batches"),
    "run": _("runs"),
    "drafts": _("drafts"),
    "responses": _("responses"),
    "judgments": _("judgments"),
    "votes": _("votes"),
    "policies": _("fixed texts"),
}


def _words(*codes: object) -> str:
    return " · ".join(str(WORDS.get(code, code)) for code in map(str, codes))


@requires(Can.OVERSEE, "POST")
def resume(request: HttpRequest) -> HttpResponse:
    """Let a restored site make calls and send messages again."""
    resume_site()
    return redirect_saying(request, gettext("Jobs and messages resumed."), "system")


@requires(Can.OVERSEE, "GET")
def system(request: HttpRequest) -> HttpResponse:
    """What `/ready` and `/metrics` say, for people."""
    disk = shutil.disk_usage(settings.ENV.data_dir)
    now = timezone.now()
    checks, beats, queues = [], [], []
    for name, value in json.loads(ready().content).items():
        if name in CHECKS:
            checks.append((CHECKS[name], _words(value)))
    for beat in WorkerBeat.objects.order_by("name"):
        age = round((now - beat.seen_at).total_seconds())
        beats.append((beat.name, beat.name == WorkerBeat.SWEEPER, age, beat.is_lost(now)))
    for family in SiteCollector().collect():
        if family.name in QUEUES:
            for sample in family.samples:
                is_over = sample.labels.get("status") in (Job.Status.FINISHED, Job.Status.CANCELLED)
                if sample.value and not is_over:
                    queues.append((_words(*sample.labels.values()), int(sample.value)))
    context = {
        "versions": {
            "MHB": software()["mhb"],
            "Python": platform.python_version(),
            "Django": django.get_version(),
            "Celery": celery.__version__,
            connection.display_name: ".".join(map(str, connection.get_database_version())),
        },
        "checks": checks,
        "beats": beats,
        "lanes": Lane.objects.filter(until__gt=now).select_related("job").order_by("worker", "job"),
        "disk_free": disk.free,
        "disk_total": disk.total,
        "disk_used_percent": round(100 * disk.used / disk.total),
        "queues": queues,
        "backup": last_backup(),
        "paused_since": paused_since(),
    }
    return render(request, "site/system.html", context)
