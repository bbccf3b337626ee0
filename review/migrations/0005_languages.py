from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0004_corrected'),
    ]

    operations = [
        migrations.AlterField(
            model_name='event',
            name='kind',
            field=models.CharField(choices=[('opened', 'opened'), ('claimed', 'claimed'), ('taken-over', 'taken over after the reservation expired'), ('released', 'returned to queue'), ('expired', 'reservation expired'), ('submitted', 'submitted'), ('moved', 'moved to the next stage'), ('closed', 'closed'), ('withdrawn', 'withdrawn'), ('prioritised', 'priority changed'), ('specialty', 'specialty changed'), ('language', 'language changed'), ('revealed', 'traps revealed'), ('retracted', 'submission undone'), ('declined', 'declined'), ('problem', 'problem reported'), ('reassigned', 'reassigned'), ('remarked', 'remarked')], max_length=16),
        ),
    ]
