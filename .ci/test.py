"""`make test`: everything that guards the project, part by part, each with its seconds, and what was skipped and why.

What runs on which database is told in tests/passes.py. Without PostgreSQL the tests run on SQLite, and the pass on PostgreSQL
is skipped by name, except on CI (`CI=true`), where it is a failure. `--thorough` goes farther (tests/profile.py).
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BIN = Path(sys.executable).parent

from bench.servers import Missing, ci, postgres  # noqa: E402
from tests import databases  # noqa: E402

CHECKS: dict[str, tuple[str, ...]] = {
    # CI would never read the cache that it takes a quarter of the time to write.
    "types": (
        *(str(BIN / "mypy"), "mhb_site", "evaluation", "generation", "review", "tests", "bench"),
        *(("--no-incremental",) if ci() else ()),
    ),
    "lint": (str(BIN / "ruff"), "check", "."),
    "format": (str(BIN / "ruff"), "format", "--check", "--quiet", "."),
    "import contracts": (str(BIN / "lint-imports"), "--no-cache"),
    "system checks": (sys.executable, "manage.py", "check", "--fail-level", "WARNING"),
    "migrations": (sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"),
}
WORKERS = "2"  # as many as CI has cores


@dataclass(frozen=True, slots=True)
class Part:
    """How one part ended."""

    title: str
    code: int
    seconds: float
    output: str = ""  # of what ran beside other parts

    def __str__(self) -> str:
        return f"{self.title}: {'ok' if self.code == 0 else f'FAILED ({self.code})'}, {self.seconds:.0f} s"


def pytest(*chosen: str, workers: str = WORKERS) -> tuple[str, ...]:
    """The command line of these tests. Those of a file stay on one worker: what they begin with is made once."""
    return (sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile", "-q", "--durations", "5", *chosen)


def run(title: str, command: Sequence[str], environment: dict[str, str] | None = None, *, beside: bool = False) -> Part:
    """Run one part: before everybody's eyes, or beside others."""
    begun = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE if beside else None,
        stderr=subprocess.STDOUT if beside else None,
        text=True,
        check=False,
    )
    return Part(title, done.returncode, time.monotonic() - begun, done.stdout or "")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--thorough", action="store_true", help="more kills, more walks of many physicians, deeper fuzzing"
    )
    if parser.parse_args().thorough:
        os.environ["TEST_PROFILE"] = "thorough"
    # Many processes are started, and compiling what they import takes half of their start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".venv" / "pycache")
    begun = time.monotonic()
    parts: list[Part] = []
    skipped: list[str] = []

    def show(part: Part, *, quiet: bool = False) -> None:
        said = "" if quiet and part.code == 0 else part.output.rstrip()
        print(f"{said}\n--- {part}".lstrip(), flush=True)
        parts.append(part)

    def tests(title: str, *chosen: str, **environment: str) -> None:
        print(f"\n=== {title}", flush=True)
        show(run(title, ("nice", "-n", "5", *pytest(*chosen)), environment))

    with databases.kept(), ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(1) as other:
        # Checks yield to tests. Those that start processes and those in a browser, one pass after the other, wait much of the
        # time, and come first when they do not: a lease may run out on who has to wait for a busy machine.
        meanwhile = [beside.submit(run, name, ("nice", *command), beside=True) for name, command in CHECKS.items()]
        # Who collects first compiles the tests: once, not in every worker at the same time.
        show(run("collection", (sys.executable, "-m", "pytest", "--collect-only", "-qq"), beside=True), quiet=True)
        for title, command in (
            ("tests that start processes", pytest("--pass", "processes", workers="0")),
            ("tests in a browser", pytest("--pass", "browser")),
        ):
            meanwhile.append(other.submit(run, title, command, beside=True))
        try:
            with postgres(careless=True, like=databases.cluster()) as url:
                settings = {
                    "MHB_DATABASE_URL": url,
                    "MHB_SECRET_KEY": "only-for-this-test-run-" * 2,
                    "MHB_HTTPS": "false",
                    "TEST_TEMPLATE": "mhb",
                }
                tests("tests on PostgreSQL", "--pass", "postgresql", **settings)
        except Missing as missing:
            if ci():
                parts.append(Part(f"tests on PostgreSQL ({missing})", 1, 0))
            else:
                skipped.append(f"tests on PostgreSQL: {missing}. So the tests run on SQLite.")
        tests("tests on SQLite", *(("-m", "not browser and not processes") if skipped else ("--pass", "sqlite")))
        for part in meanwhile:
            print(f"\n=== {part.result().title}, beside the others")
            show(part.result())

    print()
    for line in [str(part) for part in parts] + [f"SKIPPED {line}" for line in skipped]:
        print(line)
    failed = sum(part.code != 0 for part in parts)
    print(
        f"{'All parts passed' if not failed else f'{failed} part(s) failed'}, {time.monotonic() - begun:.0f} s in all."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
