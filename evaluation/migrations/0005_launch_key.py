from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0004_live'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='launch_key',
            field=models.CharField(blank=True, max_length=64, null=True, unique=True),
        ),
    ]
