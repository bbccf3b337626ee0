from django.db import migrations, models

from review.models.append_only import AppendOnly, Changeable


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0005_releases'),
    ]

    operations = [
        Changeable('ReleasedRubric'),
        migrations.AddField(
            model_name='releasedrubric',
            name='polarity',
            field=models.CharField(blank=True, max_length=8),
        ),
        AppendOnly('ReleasedRubric'),
    ]
