"""What was approved says on what ground; what nobody reviewed can have no other end."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("review", "0008_unreviewed")]

    operations = [
        migrations.AddConstraint(
            "case",
            models.CheckConstraint(
                condition=~models.Q(("ground", "unreviewed")) | models.Q(("state", "approved")),
                name="case_unreviewed_is_approved",
            ),
        ),
        migrations.AddConstraint(
            "case",
            models.CheckConstraint(
                condition=~models.Q(("state", "approved")) | ~models.Q(("ground", "")), name="case_approved_on_a_ground"
            ),
        ),
    ]
