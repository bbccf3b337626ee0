"""What made a bundle: MHB and the libraries that its numbers depend on."""

import platform
import subprocess
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from django.conf import settings

REQUIRED = ("numpy", "polars", "scipy")  # by the check of a bundle
LIBRARIES = (*REQUIRED, "openai", "django")


@cache
def software() -> dict[str, Any]:
    """The versions of MHB, of Python and of libraries. `commit`: '' if it is not known."""
    return {
        "mhb": _version(),
        "commit": settings.COMMIT or _checked_out(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _version() -> str:
    try:
        return version("mhb")
    except PackageNotFoundError:  # run from its sources
        project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
        return str(project["project"]["version"])


def _checked_out() -> str:
    """The commit of the sources; '' without git."""
    command = ["git", "-C", str(settings.BASE_DIR), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
