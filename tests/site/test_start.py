"""A command starts with the models alone: what only some need is imported when they need it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.plain

HEAVY = {
    *("celery", "numpy", "openai", "polars", "psycopg", "pyarrow", "pydantic_settings", "regex"),
    *("requests", "rich", "scipy", "sklearn", "statsmodels", "structlog"),
}
OWN = ("review", "generation", "evaluation", "mhb_site")
BUDGET = 66  # own modules; 63 today, about 300 if the registries are filled at the start
PROGRAM = """
import json, os, sys
import django
django.setup()
print(json.dumps(sorted(name for name, module in sys.modules.items() if getattr(module, "__file__", None))))
"""


def started_modules(data_dir: Path) -> set[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MHB_")}
    environment |= {"DJANGO_SETTINGS_MODULE": "mhb_site.settings", "MHB_DATA_DIR": str(data_dir)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    return set(json.loads(ended.stdout))


def test_a_command_on_sqlite_starts_without_services_and_heavy_libraries(tmp_path: Path) -> None:
    modules = started_modules(tmp_path)
    assert modules.isdisjoint(HEAVY)
    own = {name for name in modules if name.partition(".")[0] in OWN}
    assert len(own) <= BUDGET, sorted(own)
