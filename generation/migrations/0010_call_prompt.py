from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0009_attempt_id'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('hit_of__isnull', True)), fields=['endpoint', 'prompt', 'started_at'], name='call_prompt'),
        ),
    ]
