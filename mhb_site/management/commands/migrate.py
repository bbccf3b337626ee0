"""migrate: Django's, after a look at where the database comes from."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate

from mhb_site.server import startup


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            startup.history()
        except startup.Unusable as error:
            raise CommandError(str(error)) from error
        super().handle(*args, **options)
