from django.db import migrations

from review.models.covered_indexes import DropCoveredIndex


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0022_archives'),
    ]

    operations = [
        DropCoveredIndex("assignment", "case"),
        DropCoveredIndex("assignment", "physician"),
        DropCoveredIndex("draft", "assignment"),
        DropCoveredIndex("review", "case"),
        DropCoveredIndex("review", "physician"),
        DropCoveredIndex("firstlook", "assignment"),
        DropCoveredIndex("activeinterval", "assignment"),
        DropCoveredIndex("activeinterval", "physician"),
        DropCoveredIndex("declined", "case"),
        DropCoveredIndex("event", "case"),
        DropCoveredIndex("notice", "user"),
    ]
