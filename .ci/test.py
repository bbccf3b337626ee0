"""`make test`: runs all tests and checks, and reports the time of each part and what was skipped.

tests/passes.py decides which tests run on which database. Without PostgreSQL the tests run on
SQLite, and the PostgreSQL pass is reported as skipped; on CI (`CI=true`) that is a failure.
`--thorough` tests more (tests/profile.py).
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
    # CI never reads the cache, and writing it takes a quarter of the time.
    "types": (
        *(str(BIN / "mypy"), "mhb_site", "evaluation", "generation", "review", "tests", "bench", "client"),
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
    """The result of one part."""

    title: str
    code: int
    seconds: float
    output: str = ""  # if captured, because the part ran beside others

    def __str__(self) -> str:
        return f"{self.title}: {'ok' if self.code == 0 else f'FAILED ({self.code})'}, {self.seconds:.0f} s"


def pytest(*arguments: str, workers: str = WORKERS) -> tuple[str, ...]:
    """The command line of these tests.

    A file stays on one worker, so that its fixtures are made once.
    """
    return (sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile", "-q", "--durations", "5", *arguments)


def run(title: str, command: Sequence[str], environment: dict[str, str] | None = None, *, beside: bool = False) -> Part:
    """Run one part; its output is captured if it runs beside others."""
    started = time.monotonic()
    process = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE if beside else None,
        stderr=subprocess.STDOUT if beside else None,
        text=True,
        check=False,
    )
    return Part(title, process.returncode, time.monotonic() - started, process.stdout or "")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--thorough", action="store_true", help="more kills, more walks of many physicians, deeper fuzzing"
    )
    if parser.parse_args().thorough:
        os.environ["TEST_PROFILE"] = "thorough"
    # Tests start many processes, and compiling their imports would take half of each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".venv" / "pycache")
    started = time.monotonic()
    parts: list[Part] = []
    skipped: list[str] = []

    def show(part: Part, *, quiet: bool = False) -> None:
        output = "" if quiet and part.code == 0 else part.output.rstrip()
        print(f"{output}\n--- {part}".lstrip(), flush=True)
        parts.append(part)

    def tests(title: str, *arguments: str, **environment: str) -> None:
        print(f"\n=== {title}", flush=True)
        show(run(title, ("nice", "-n", "5", *pytest(*arguments)), environment))

    with databases.shared_folder(), ThreadPoolExecutor(1) as check_pool, ThreadPoolExecutor(1) as slow_test_pool:
        # Checks yield to tests. Tests with processes and in a browser wait most of the time. They
        # run one pass after the other at normal priority, because on a busy machine their leases
        # could expire.
        futures = [check_pool.submit(run, name, ("nice", *command), beside=True) for name, command in CHECKS.items()]
        # Collect once first, so that the workers do not all compile the tests at the same time.
        show(run("collection", (sys.executable, "-m", "pytest", "--collect-only", "-qq"), beside=True), quiet=True)
        for title, command in (
            ("tests that start processes", pytest("--pass", "processes", workers="0")),
            ("tests in a browser", pytest("--pass", "browser")),
        ):
            futures.append(slow_test_pool.submit(run, title, command, beside=True))
        try:
            with postgres(careless=True, like=databases.migrated_cluster()) as url:
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
        for part in futures:
            print(f"\n=== {part.result().title}, beside the others")
            show(part.result())

    print()
    for line in [str(part) for part in parts] + [f"SKIPPED {line}" for line in skipped]:
        print(line)
    failed = sum(part.code != 0 for part in parts)
    print(
        f"{'All parts passed' if not failed else f'{failed} part(s) failed'}, {time.monotonic() - started:.0f} s in all."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
