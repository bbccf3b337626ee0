"""Plain words for what lanes and endpoints report."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("generation", "0022_table_mappings")]

    operations = [
        migrations.RenameField("endpointstate", "because", "error"),
        migrations.RenameField("endpointstate", "bears", "supported"),
        migrations.RenameField("lane", "flying", "in_flight"),
        migrations.RenameField("providerbatch", "said", "remote_status"),
    ]
