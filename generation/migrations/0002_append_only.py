from django.db import migrations

from review.models.append_only import AppendOnly


class Migration(migrations.Migration):
    dependencies = [("generation", "0001_initial")]
    operations = [
        AppendOnly("Release"),
        AppendOnly("ReleasedSample"),
        AppendOnly("ReleasedRubric"),
        AppendOnly("Facet"),
    ]
