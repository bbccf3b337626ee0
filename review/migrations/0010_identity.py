"""Names of accounts in their normal form, sessions that can be ended, and a first event for every account without one."""

import django.contrib.auth.validators
from django.core.management.base import CommandError
from django.db import migrations, models
from django.db.models.functions import Lower
from django.utils import timezone

import review.models.usernames
from review.audit import hash_chain

PERSON_EVENTS = [
    ("made", "account made"),
    ("edited", "account changed"),
    ("paused", "paused"),
    ("resumed", "takes cases again"),
    ("closed", "account closed"),
    ("opened", "account opened again"),
    ("password", "new password"),
    ("second-factor", "second factor taken away"),
    ("own-factor", "second factor set up or removed"),
    ("role", "role changed"),
    ("keeper", "access to Django's admin changed"),
    ("found", "account found without an event"),
    ("calibration", "calibration given again"),
    ("item-made", "made a calibration case"),
    ("item-changed", "changed a calibration case"),
    ("term", "added or changed a taxonomy term"),
]


def normalise_names(apps, schema_editor):
    """Nothing is changed where two names become one: who is who is for the operator to say."""
    User = apps.get_model("review", "User")
    found = {}
    for pk, name in User.objects.order_by("pk").values_list("pk", "username"):
        found.setdefault(review.models.usernames.normal(name), []).append((pk, name))
    same = [rows for rows in found.values() if len(rows) > 1]
    too_long = [rows for name, rows in found.items() if len(name) > 150]
    if same or too_long:
        groups = "; ".join(", ".join(f"{name!r} (id {pk})" for pk, name in rows) for rows in same + too_long)
        raise CommandError(
            "Names of accounts that differ only in case or width are one name from this version on, and have at most 150 "
            f"characters. Rename all but one of each group with the earlier version, then migrate again: {groups}."
        )
    for name, [(pk, before)] in found.items():
        if name != before:
            User.objects.filter(pk=pk).update(username=name)


def note_accounts(apps, schema_editor):
    """What each account is now becomes its first event of the kind that the audit holds accounts against."""
    PersonEvent, Authenticator = apps.get_model("review", "PersonEvent"), apps.get_model("mfa", "Authenticator")
    head = apps.get_model("review", "ChainHead").objects.get(pk="personevent")
    factors = {}
    for user, kind in Authenticator.objects.order_by("type").values_list("user_id", "type"):
        factors.setdefault(user, []).append(kind)
    events = []
    for user in apps.get_model("review", "User").objects.order_by("pk"):
        event = PersonEvent(person_id=user.pk, kind="found", actor=None, at=timezone.now())
        event.data = {
            "role": user.role,
            "active": user.is_active,
            "staff": user.is_staff,
            "superuser": user.is_superuser,
            "factors": factors.get(user.pk, []),
        }
        event.sequence, event.previous = head.sequence + 1, head.hash
        event.hash = hash_chain.digest(
            hash_chain.person_entry(
                key=head.key,
                sequence=event.sequence,
                previous=event.previous,
                person=event.person_id,
                kind=event.kind,
                actor=None,
                at=event.at,
                data=event.data,
            )
        )
        head.sequence, head.hash = event.sequence, event.hash
        events.append(event)
    PersonEvent.objects.bulk_create(events, batch_size=1000)
    head.save(update_fields=["sequence", "hash"])


USERNAME = review.models.usernames.NameField(
    "username",
    max_length=150,
    unique=True,
    help_text="At most 150 characters: letters, digits and @/./+/-/_. Capital letters become small ones.",
    validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
    error_messages={"unique": "A user with that username already exists."},
)


class Migration(migrations.Migration):
    dependencies = [
        ("review", "0009_approved_on_a_ground"),
        ("mfa", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(normalise_names, migrations.RunPython.noop),
        # The column stays as it is; what is written into it, and asked of it, is in the normal form from here on.
        migrations.SeparateDatabaseAndState(state_operations=[migrations.AlterField("user", "username", USERNAME)]),
        migrations.AddField("user", "sessions_ended", models.PositiveIntegerField(default=0)),
        migrations.AddConstraint("user", models.UniqueConstraint(Lower("username"), name="user_name_once")),
        migrations.AlterField("personevent", "kind", models.CharField(max_length=16, choices=PERSON_EVENTS)),
        migrations.RunPython(note_accounts, migrations.RunPython.noop),
    ]
