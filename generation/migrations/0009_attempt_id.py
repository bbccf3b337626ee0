from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0008_live'),
    ]

    operations = [
        migrations.AddField(
            model_name='call',
            name='attempt_id',
            field=models.UUIDField(blank=True, null=True, unique=True),
        ),
    ]
