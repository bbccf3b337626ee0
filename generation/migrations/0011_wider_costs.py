from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0010_call_prompt'),
    ]

    operations = [
        migrations.AlterField(
            model_name='call',
            name='cost',
            field=models.DecimalField(decimal_places=8, default=0, max_digits=18),
        ),
        migrations.AlterField(
            model_name='providerline',
            name='estimate',
            field=models.DecimalField(decimal_places=8, default=0, max_digits=18),
        ),
    ]
