"""Builds again the constraint that 0044 dropped, too, before it was mended."""

from django.db import migrations

NAME = "version_one_alive"


def build(apps, schema_editor):
    version_class = apps.get_model("generation", "SampleVersion")
    if NAME in schema_editor._constraint_names(version_class, unique=True):
        return
    for constraint in version_class._meta.constraints:
        if constraint.name == NAME:
            schema_editor.add_constraint(version_class, constraint)


class Migration(migrations.Migration):
    dependencies = [("generation", "0044_covered_indexes")]
    operations = [migrations.RunPython(build, migrations.RunPython.noop)]
