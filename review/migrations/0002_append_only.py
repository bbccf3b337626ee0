from django.db import migrations

from review.models.append_only import AppendOnly


class Migration(migrations.Migration):
    dependencies = [("review", "0001_initial")]
    operations = [AppendOnly("Event"), AppendOnly("Review")]
