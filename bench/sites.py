"""Sites to measure: a database with open cases, and the web server of the demo or of production."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import servers
from mhb_site.server import children

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
PEOPLE = 60
REVIEWED = 60  # cases that wait for their second review


@dataclass(slots=True)
class Site:
    """A running site with `cases` open cases and PEOPLE signed-in physicians."""

    cases: int
    port: int
    database: str  # a URL, or SQLite's file
    # Sessions, admin, answers: from `bench.seed`.
    seeded: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    group: int = 0  # the process group of the web server

    def load(self, what: str, users: int, **plan: object) -> dict[str, Any]:
        """Run a plan of `bench.browsers` with the first `users` physicians, in another process."""
        sessions = self.seeded["sessions"][:users]
        parameters = {**self.seeded, "host": HOST, "port": self.port, "database": self.database, "what": what, **plan}
        parameters["group"] = self.group
        return dict(run_module(["-m", "bench.browsers"], {}, json.dumps({**parameters, "sessions": sessions})))

    def statements(self) -> dict[str, list[int]]:
        """Number of SQL statements of each action on a case, counted in a separate process."""
        return dict(run_module(["-m", "bench.statements"], self.environment, json.dumps(self.seeded)))


@contextmanager
def sqlite_sites(folder: Path, sizes: Sequence[int]) -> Iterator[list[Site]]:
    """Run embedded sites of these sizes as the demo does: one worker with threads."""
    manage({"MHB_DATA_DIR": str(folder / "empty"), **EMBEDDED}, "migrate", "-v0")
    sites, environments = [], []
    for size in sizes:
        home = folder / f"sqlite-{size}"
        shutil.copytree(folder / "empty", home)
        sites.append(Site(size, servers.free_port(), str(home / "mhb.sqlite3")))
        environments.append({"MHB_DATA_DIR": str(home), **EMBEDDED})
    with _running(sites, environments, [children.web(HOST, site.port) for site in sites]):
        yield sites


@contextmanager
def postgres_sites(folder: Path, sizes: Sequence[int]) -> Iterator[list[Site]]:
    """Run sites of these sizes as in production (docker-compose.yml), on one PostgreSQL.

    Raises servers.Missing.
    """
    with servers.postgres() as url:
        settings = {
            "MHB_DATA_DIR": str(folder),
            "MHB_STATIC_ROOT": str(folder / "static"),
            "MHB_SECRET_KEY": "only-for-this-bench-" * 2,
            "MHB_HTTPS": "false",
            "MHB_REDIS_URL": "",
            "MHB_DEBUG": "false",
        }
        manage({**settings, "MHB_DATABASE_URL": url}, "migrate", "-v0")
        manage({**settings, "MHB_DATABASE_URL": url}, "collectstatic", "--noinput", "-v0")
        sites, environments = [], []
        for size in sizes:
            sites.append(Site(size, servers.free_port(), f"{url}_{size}"))
            environments.append({**settings, "MHB_DATABASE_URL": sites[-1].database})
            _copy_database(url, f"mhb_{size}")
        with _running(sites, environments, [gunicorn(site.port) for site in sites]):
            yield sites


EMBEDDED = {"MHB_DATABASE_URL": "", "MHB_REDIS_URL": "", "MHB_DEBUG": "false"}


def _copy_database(url: str, name: str) -> None:
    import psycopg

    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE mhb'.encode())


def gunicorn(port: int) -> list[str]:
    return [sys.executable, "-m", "gunicorn", "mhb_site.wsgi", "--bind", f"{HOST}:{port}", "--workers", "2"]


@contextmanager
def _running(
    sites: Sequence[Site], environments: Sequence[dict[str, str]], commands: Sequence[Sequence[str]]
) -> Iterator[None]:
    families = [children.Children(cwd=str(ROOT), environment=environment) for environment in environments]
    for site, environment in zip(sites, environments, strict=True):
        site.environment = environment
        numbers = [str(site.cases), str(PEOPLE), str(REVIEWED)]
        site.seeded = dict(run_module(["-m", "bench.seed", *numbers], environment))
    try:
        for site, command, family in zip(sites, commands, families, strict=True):
            family.start("web", command)
            site.group = family.processes["web"].pid
        for site in sites:
            if not children.wait_for_port(HOST, site.port):
                raise RuntimeError("the site does not start")
            # Warm up: each worker compiles templates and opens connections. Clients keep their
            # connection to one worker, and two clients may have the same one, so this is done with
            # several clients, twice.
            for _ in range(2):
                site.load("day", 4, cycles=1)
        yield
    finally:
        for family in families:
            family.stop()


def manage(environment: dict[str, str], *arguments: str) -> None:
    process = subprocess.run(
        children.django(*arguments), cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=False
    )
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed")


def run_module(arguments: Sequence[str], environment: dict[str, str], stdin: str = "") -> Any:
    """Run Python with these arguments and return the JSON that it prints."""
    settings = {"DJANGO_SETTINGS_MODULE": "mhb_site.settings"}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **settings, **environment},
        input=stdin,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed")
    return json.loads(process.stdout)
