from django.db import migrations

from review.models.covered_indexes import DropCoveredIndex


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0022_asking_again'),
    ]

    operations = [
        DropCoveredIndex("runendpoint", "run"),
        DropCoveredIndex("runjudge", "run"),
        DropCoveredIndex("judgment", "response"),
        DropCoveredIndex("vote", "run"),
        DropCoveredIndex("vote", "judgment"),
        DropCoveredIndex("policyanswer", "run"),
        DropCoveredIndex("policyanswer", "response"),
        DropCoveredIndex("validationitem", "validation"),
    ]
