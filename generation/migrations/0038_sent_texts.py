from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0037_several_shared'),
    ]

    operations = [
        migrations.CreateModel(
            name='SentText',
            fields=[
                ('digest', models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ('data', models.BinaryField()),
                ('used_on', models.DateField()),
            ],
        ),
        migrations.AddField(
            model_name='call',
            name='request',
            field=models.BinaryField(db_default=b'', default=b''),
        ),
    ]
