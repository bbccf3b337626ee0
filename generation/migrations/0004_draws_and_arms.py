from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0003_severities'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='draw',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='rubric',
            name='polarity',
            field=models.CharField(blank=True, max_length=8),
        ),
        migrations.AddField(
            model_name='sample',
            name='arm',
            field=models.CharField(choices=[('trap', 'trap'), ('control', 'control')], default='trap', max_length=8),
        ),
        migrations.AddField(
            model_name='sourcerecord',
            name='language_confidence',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name='rubric',
            constraint=models.CheckConstraint(condition=models.Q(('polarity__in', ['', 'must', 'must not'])), name='rubric_polarity_known'),
        ),
        migrations.AddConstraint(
            model_name='sample',
            constraint=models.CheckConstraint(condition=models.Q(('arm__in', ['trap', 'control'])), name='sample_arm_known'),
        ),
    ]
