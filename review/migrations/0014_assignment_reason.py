from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0013_acts'),
    ]

    operations = [
        migrations.RenameField(model_name='assignment', old_name='why', new_name='reason'),
    ]
