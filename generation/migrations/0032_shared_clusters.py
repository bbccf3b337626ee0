"""What records have in common: the first of their images, for records of before."""

from django.db import migrations, models

CHUNK = 500


def name_images(apps, _schema):
    record_class = apps.get_model("generation", "SourceRecord")
    rows = record_class.objects.filter(content__has_key="images").only("pk", "content").order_by("pk")
    changed = []
    for record in rows.iterator(chunk_size=CHUNK):
        images = record.content.get("images")
        if isinstance(images, list) and images and isinstance(images[0], str):
            record.shares = f"image:{images[0][:48]}"
            changed.append(record)
        if len(changed) == CHUNK:
            record_class.objects.bulk_update(changed, ["shares"])
            changed = []
    record_class.objects.bulk_update(changed, ["shares"])


class Migration(migrations.Migration):
    dependencies = [("generation", "0031_import_oddities")]
    operations = [
        migrations.AddField(
            model_name="sourcerecord",
            name="shares",
            field=models.CharField(blank=True, db_default="", default="", max_length=80),
        ),
        migrations.RunPython(name_images, migrations.RunPython.noop),
    ]
