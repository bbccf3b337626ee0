"""Which accounts are scripted stand-ins for physicians. Those from before are known by what each of their notes says."""

from django.db import migrations, models

SIGNED = "(Simulated physician)"


def know_the_simulated(apps, schema_editor):
    User, Review = apps.get_model("review", "User"), apps.get_model("review", "Review")
    signed = Review.objects.filter(answers__icontains=SIGNED).values("physician")
    User.objects.filter(pk__in=signed).update(simulated=True)


class Migration(migrations.Migration):
    dependencies = [("review", "0010_identity")]

    operations = [
        migrations.AddField("User", "simulated", models.BooleanField(default=False)),
        migrations.RunPython(know_the_simulated, migrations.RunPython.noop),
    ]
