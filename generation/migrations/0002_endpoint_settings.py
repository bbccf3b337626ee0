from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='endpoint_settings',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='completion_tokens',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='extra_body',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='last_test',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='reasoning_effort',
            field=models.CharField(blank=True, max_length=20),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='top_p',
            field=models.FloatField(blank=True, null=True),
        ),
    ]
