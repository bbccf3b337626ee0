from django.db import migrations, models

KINDS = [
    ("made", "account created"),
    ("edited", "account edited"),
    ("paused", "paused"),
    ("resumed", "case assignment resumed"),
    ("closed", "account closed"),
    ("opened", "account reopened"),
    ("password", "password changed"),
    ("invited", "invitation link created"),
    ("uninvited", "invitation withdrawn"),
    ("second-factor", "second factor removed"),
    ("own-factor", "second factor set up or removed"),
    ("role", "role changed"),
    ("keeper", "access to Django's admin changed"),
    ("found", "account without any event found"),
    ("calibration", "calibration cases offered again"),
    ("item-made", "calibration case created"),
    ("item-changed", "calibration case edited"),
    ("term", "taxonomy term added or changed"),
    ("form", "review form published"),
]


class Migration(migrations.Migration):
    dependencies = [("review", "0005_languages")]

    operations = [
        migrations.AddField("user", "institution", models.CharField(blank=True, max_length=200, default=""), False),
        migrations.AddField("user", "invited_at", models.DateTimeField(blank=True, null=True)),
        migrations.AlterField("user", "specialty", models.CharField(blank=True, max_length=300)),
        migrations.AlterField("personevent", "kind", models.CharField(choices=KINDS, max_length=16)),
    ]
