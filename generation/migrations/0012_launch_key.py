from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0011_wider_costs'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='launch_key',
            field=models.CharField(blank=True, max_length=64, null=True, unique=True),
        ),
    ]
