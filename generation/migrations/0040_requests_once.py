import generation.models.engine
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0039_share_sent_texts'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='call',
            name='sent',
        ),
        migrations.RemoveIndex(
            model_name='call',
            name='generation__subject_e92ad9_idx',
        ),
        migrations.RemoveIndex(
            model_name='call',
            name='call_identity',
        ),
        migrations.AddIndex(
            model_name='call',
            index=generation.models.engine.EqualityIndex(fields=['subject'], name='call_subject'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=generation.models.engine.EqualityIndex(
                condition=models.Q(('error', ''), ('hit_of__isnull', True)), fields=['identity'], name='call_reply'
            ),
        ),
    ]
