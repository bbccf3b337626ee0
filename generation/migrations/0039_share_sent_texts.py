"""Stores the requests of earlier calls as new ones are stored.

A chunk is a transaction: what was interrupted goes on where it was.
"""

import zlib
from datetime import UTC, datetime
from typing import Any

from django.apps.registry import Apps
from django.db import migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from generation.models.sent_texts import pack_request

CHUNK = 500


def share_texts(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    calls: Any = apps.get_model('generation', 'Call')
    rows = calls.objects.only('sent', 'request').order_by('pk')
    last = 0
    while chunk := list(rows.filter(pk__gt=last)[:CHUNK]):
        last = chunk[-1].pk
        waiting = [call for call in chunk if call.sent and not call.request]
        with transaction.atomic():
            _share(apps, waiting)


def _share(apps: Apps, waiting: list[Any]) -> None:
    texts: dict[bytes, str] = {}
    for call in waiting:
        call.request = pack_request(call.sent, texts)
    today = datetime.now(UTC).date()
    stored: Any = apps.get_model('generation', 'SentText')
    rows = [
        stored(digest=digest, data=zlib.compress(text.encode()), used_on=today) for digest, text in texts.items()
    ]
    stored.objects.bulk_create(rows, ignore_conflicts=True)
    apps.get_model('generation', 'Call').objects.bulk_update(waiting, ['request'])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('generation', '0038_sent_texts'),
    ]

    operations = [
        migrations.RunPython(share_texts, migrations.RunPython.noop),
    ]
