from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ASKS = "Is the trap's claim definitely false?"
HELP = (
    "Check the claim against an authoritative source, such as a national clinical practice guideline. If it is definitely and "
    "verifiably false, cite the source and quote the passage that shows it. Choose No or unsure if the claim is true, contested "
    "or cannot be verified. For a report, also choose No or unsure if the report does contain what the question asks for."
)
LABELS = {"met": "Yes, definitely false", "not-met": "No or unsure"}


def reword(spec: dict[str, Any]) -> bool:
    """Put the question in words into a stored case; the values of its answers stay. Whether there was anything to do."""
    for question in spec["form"]["questions"]:
        if question["key"] == "factual" and not question.get("asks"):
            question |= {"asks": ASKS, "help": HELP}
            for choice in question["choices"]:
                choice["label"] = LABELS.get(choice["value"], choice["label"])
            return True
    return False


def reword_all(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """'Met' said that the trap is false, and reads the other way round: every stored MHB case asks it in words."""
    for name in ("Case", "CalibrationItem"):
        rows = apps.get_model("review", name).objects.filter(benchmark="mhb").only("spec")
        for row in rows.iterator(chunk_size=200):
            if reword(row.spec):
                row.save(update_fields=["spec"])


class Migration(migrations.Migration):
    dependencies = [("mhb_site", "0001_cache"), ("review", "0001_initial")]
    operations = [migrations.RunPython(reword_all, migrations.RunPython.noop, elidable=True)]
