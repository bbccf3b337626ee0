"""Every ended response has its outcome, and every run may have a plan."""

from typing import Any

from django.db import migrations, models
from django.db.models import Case, Q, Value, When


def tell_outcomes(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001
    ended = apps.get_model("evaluation", "Response").objects.filter(status__in=["done", "failed"], outcome="")
    ended.update(outcome=Case(When(status="done", then=Value("answered")), default=Value("failed")))


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0002_outcomes_and_repeats")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="plan",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.RunPython(tell_outcomes, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.CheckConstraint(
                condition=(Q(status__in=["done", "failed"]) & ~Q(outcome=""))
                | (~Q(status__in=["done", "failed"]) & Q(outcome="")),
                name="response_outcome_iff_ended",
            ),
        ),
    ]
