"""sweep [--forever]: find work that no worker is doing."""

import json
import logging
import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, close_old_connections

from generation.engine import watchdog
from generation.engine.worker_beats import record_beat
from generation.models import WorkerBeat
from mhb_site.server import startup
from mhb_site.server.retention import forget_daily
from mhb_site.server.sweeping import sweep

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Return expired leases, apply review outcomes, wake workers for waiting work."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--forever", action="store_true", help="repeat until interrupted")
        parser.add_argument("--every", type=float, default=2.0, help="seconds between rounds")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["forever"]:
            self.stdout.write(json.dumps(sweep()))
            return
        startup.wait()
        watchdog.start()  # it makes samples of some recipes
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            try:
                sweep()
                record_beat(WorkerBeat.SWEEPER)
                forget_daily()
            except (OperationalError, InterfaceError) as error:
                # The next round finds the same rows.
                log.warning("sweep postponed, database away or busy: %s", error)
            close_old_connections()
            stop.wait(options["every"])
