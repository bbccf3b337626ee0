from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0017_senior'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='site_language',
            field=models.CharField(blank=True, db_default='', default='', max_length=16),
        ),
    ]
