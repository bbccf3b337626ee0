from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='draw',
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
