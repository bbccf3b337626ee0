"""`make test`: everything that guards the project, each part by name, with what was skipped and why.

The test suite runs twice: on the embedded SQLite, and on a PostgreSQL of its own. Without PostgreSQL the second pass is
skipped by name, except on CI (`CI=true`), where it is a failure.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BIN = Path(sys.executable).parent

from tests.servers import Missing, ci, postgres  # noqa: E402


def run(title: str, *command: str, **environment: str) -> bool:
    """Run one part and say how it went."""
    print(f"\n=== {title}", flush=True)
    begun = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    print(
        f"--- {title}: {'ok' if done.returncode == 0 else f'FAILED ({done.returncode})'}, {time.monotonic() - begun:.0f} s"
    )
    return done.returncode == 0


def tool(name: str) -> str:
    return str(BIN / name)


def main() -> int:
    failed: list[str] = []
    skipped: list[str] = []

    def part(title: str, *command: str, **environment: str) -> None:
        if not run(title, *command, **environment):
            failed.append(title)

    part("lint", tool("ruff"), "check", ".")
    part("format", tool("ruff"), "format", "--check", "--quiet", ".")
    part("types", tool("mypy"), "mhb_site", "evaluation", "generation", "review", "tests", "bench")
    part("import contracts", tool("lint-imports"), "--no-cache")
    part("migrations", sys.executable, "manage.py", "makemigrations", "--check", "--dry-run")
    pytest = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q"]
    part("tests on SQLite", *pytest, "-m", "not browser")
    # On their own: playwright's event loop in the thread of the tests is no company for those that ask models.
    part("tests in a browser", *pytest, "-m", "browser")
    try:
        with postgres() as url:
            settings = {"MHB_DATABASE_URL": url, "MHB_SECRET_KEY": "only-for-this-test-run-" * 2, "MHB_HTTPS": "false"}
            # What starts its own processes or needs no database has nothing new to say here.
            chosen = "not processes and not browser and not plain and not sqlite_only"
            part("tests on PostgreSQL", *pytest, "-m", chosen, **settings)
    except Missing as missing:
        (failed if ci() else skipped).append(f"tests on PostgreSQL: {missing}")

    print()
    for line in skipped:
        print(f"SKIPPED  {line}")
    for line in failed:
        print(f"FAILED   {line}")
    print("All parts passed." if not failed else f"{len(failed)} part(s) failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
