"""The trail becomes a chain: events that there are already are chained in the order in which they were written."""

import secrets

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from review.audit import hash_chain
from review.models.append_only import AppendOnly
from review.models.append_only import Changeable

BATCH = 2000


def chain_events(apps, schema_editor):
    Event = apps.get_model("review", "Event")
    key = secrets.token_hex(32)
    numbers = {}  # case -> how many events so far
    events = Event.objects.select_related("case").defer("case__spec").order_by("pk")

    def row(event, sequence, previous):
        numbers[event.case_id] = number = numbers.get(event.case_id, 0) + 1
        entry = hash_chain.entry(
            key=key,
            sequence=sequence,
            previous=previous,
            sample=event.case.lineage,
            version=event.case.version,
            number=number,
            kind=event.kind,
            actor=event.actor_id,
            at=event.at,
            data=event.data,
        )
        return entry, {"number": number}

    _chain(apps, schema_editor, "event", key, events, row)


def chain_person_events(apps, schema_editor):
    key = secrets.token_hex(32)

    def row(event, sequence, previous):
        entry = hash_chain.person_entry(
            key=key,
            sequence=sequence,
            previous=previous,
            person=event.person_id,
            kind=event.kind,
            actor=event.actor_id,
            at=event.at,
            data=event.data,
        )
        return entry, {}

    _chain(apps, schema_editor, "personevent", key, apps.get_model("review", "PersonEvent").objects.order_by("pk"), row)


def _chain(apps, schema_editor, name, key, events, row):
    """Chain a table, a batch at a time: a server-side cursor would not survive what is written meanwhile."""
    sequence, hash_, last = 0, hash_chain.GENESIS, 0
    with schema_editor.connection.cursor() as cursor:
        while batch := list(events.filter(pk__gt=last)[:BATCH]):
            rows = []
            for event in batch:
                sequence, previous = sequence + 1, hash_
                entry, more = row(event, sequence, previous)
                hash_ = hash_chain.digest(entry)
                rows.append((sequence, previous, hash_, *more.values(), event.pk))
            columns = ", ".join(f"{column} = %s" for column in ("sequence", "previous", "hash", *more))
            cursor.executemany(f"UPDATE review_{name} SET {columns} WHERE id = %s", rows)
            last = batch[-1].pk
    apps.get_model("review", "ChainHead").objects.create(name=name, sequence=sequence, hash=hash_, key=key)


def chained(model, *, null):
    """The columns of a chained row, empty at first where there are rows already."""
    operation = migrations.AddField if null else migrations.AlterField
    fields = {
        "sequence": models.PositiveBigIntegerField(null=True) if null else models.PositiveBigIntegerField(unique=True),
        "previous": models.CharField(max_length=64, null=null),
        "hash": models.CharField(max_length=64, null=null),
    }
    return [operation(model, name, field) for name, field in fields.items()]


class Migration(migrations.Migration):
    dependencies = [("review", "0004_claims")]

    operations = [
        migrations.CreateModel(
            name="Audit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("asked_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("total", models.PositiveBigIntegerField(default=0)),
                ("checked", models.PositiveBigIntegerField(default=0)),
                ("reviews", models.PositiveBigIntegerField(default=0)),
                ("unsealed", models.PositiveBigIntegerField(default=0)),
                ("sequence", models.PositiveBigIntegerField(default=0)),
                ("hash", models.CharField(blank=True, max_length=64)),
                ("faults", models.JSONField(default=list)),
                ("faults_count", models.PositiveBigIntegerField(default=0)),
                (
                    "asked_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ChainHead",
            fields=[
                ("name", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("sequence", models.PositiveBigIntegerField()),
                ("hash", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=64)),
            ],
        ),
        Changeable("Event"),
        Changeable("PersonEvent"),
        Changeable("Review"),  # not altered: AppendOnly below adds the trigger against TRUNCATE, which is newer than 0002
        *chained("event", null=True),
        migrations.AddField("event", "number", models.PositiveIntegerField(null=True)),
        *chained("personevent", null=True),
        migrations.RunPython(chain_events, migrations.RunPython.noop),
        migrations.RunPython(chain_person_events, migrations.RunPython.noop),
        *chained("event", null=False),
        migrations.AlterField("event", "number", models.PositiveIntegerField()),
        migrations.AddConstraint(
            "event", models.UniqueConstraint(fields=["case", "number"], name="event_numbered_once")
        ),
        *chained("personevent", null=False),
        AppendOnly("Event"),
        AppendOnly("PersonEvent"),
        AppendOnly("Review"),
        AppendOnly("ChainHead", ("name",)),
    ]
