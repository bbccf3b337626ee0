from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0016_told'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='senior',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='assignment',
            name='senior',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
