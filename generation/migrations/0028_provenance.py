from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ('generation', '0027_disabled_endpoints'),
    ]

    operations = [
        migrations.RenameField('sampleversion', 'made', 'provenance'),
        migrations.RenameField('release', 'made', 'provenance'),
    ]
