from django.db import migrations

from review.models.covered_indexes import DropCoveredIndex


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0043_withdrawn_samples'),
    ]

    operations = [
        DropCoveredIndex("endpointday", "endpoint"),
        DropCoveredIndex("sourcerecord", "source"),
        DropCoveredIndex("batch", "comparison"),
        DropCoveredIndex("batchrole", "batch"),
        DropCoveredIndex("draft", "batch"),
        DropCoveredIndex("finding", "draft"),
        DropCoveredIndex("sampleversion", "sample"),
        DropCoveredIndex("fingerprint", "index"),
        DropCoveredIndex("rubric", "version"),
        DropCoveredIndex("barrierround", "batch"),
        DropCoveredIndex("mergeevent", "draft"),
        DropCoveredIndex("providerline", "batch"),
        DropCoveredIndex("releasedsample", "release"),
        DropCoveredIndex("releasedrubric", "sample"),
        DropCoveredIndex("facet", "rubric"),
    ]
