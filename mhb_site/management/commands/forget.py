"""forget: delete sign-ins, ended sessions, ledger texts and lost uploads after their time."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from mhb_site.server.retention import forget


class Command(BaseCommand):
    help = "Delete what is older than MHB_KEEP_... allows. The sweeper does it once a day."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(forget()))
