"""Records share all of their images, not the first alone, and whatever else they have in common."""

from django.db import migrations, models

CHUNK = 500


def name_images(apps, _schema):
    record_class = apps.get_model("generation", "SourceRecord")
    rows = record_class.objects.filter(content__has_key="images").only("pk", "content", "shares").order_by("pk")
    changed = []
    for record in rows.iterator(chunk_size=CHUNK):
        images = record.content.get("images")
        if not isinstance(images, list):
            continue
        names = record.shares.split()
        names += [f"image:{image[:48]}" for image in images if isinstance(image, str)]
        shares = " ".join(dict.fromkeys(names))
        if shares != record.shares:
            record.shares = shares
            changed.append(record)
        if len(changed) == CHUNK:
            record_class.objects.bulk_update(changed, ["shares"])
            changed = []
    record_class.objects.bulk_update(changed, ["shares"])


class Migration(migrations.Migration):
    dependencies = [("generation", "0036_prompt_cache_key")]
    operations = [
        migrations.AlterField(
            model_name="sourcerecord",
            name="shares",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.RunPython(name_images, migrations.RunPython.noop),
    ]
