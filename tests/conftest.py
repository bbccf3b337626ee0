"""Fixtures for all tests: one cast of characters, and one test database that several threads can use.

The database is the settings' own: SQLite, or PostgreSQL where MHB_DATABASE_URL, MHB_SECRET_KEY and MHB_HTTPS are set (then
with `-m "not sqlite_only"`). A test that must differ asks `connection.vendor`. `tests.passes` says what runs on which.
"""

import gc
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.test import TransactionTestCase, override_settings
from django.utils import timezone, translation

from bench import servers
from mhb_site.celery import app as celery
from review.audit.chain_entries import GENESIS
from review.audit.trail import EVENTS, PERSON_EVENTS
from review.models import ChainHead, User
from review.rules.permissions import UserRole
from tests import databases
from tests.keys import ACCESS
from tests.profile import far
from tests.review.factories import account

# No deadlines: a busy machine is no fault of the code. The same examples each time: what passes here passes in CI.
hypothesis.settings.register_profile("mhb", deadline=None, derandomize=True, max_examples=far(25, 100))
hypothesis.settings.load_profile("mhb")


pytest_plugins = ["tests.passes", "tests.populations"]


def pytest_configure(config: pytest.Config) -> None:
    """Migrated databases are kept from here on; by the workers of xdist in the folder of who started them."""
    stack = ExitStack()
    stack.enter_context(databases.kept())
    config.add_cleanup(stack.close)
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is imported and collected stays: no search for garbage is to walk through it for every few tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SQLite's test database is a file: in memory, threads would share one connection's locks and prove nothing.

    Migrating takes longer than many tests: several workers copy one migrated database.
    """
    test = connection.settings_dict["TEST"]
    if connection.vendor == "sqlite":
        folder: Path = tmp_path_factory.mktemp("database")  # one a worker of xdist
        test["NAME"] = str(folder / "test.sqlite3")
        if "PYTEST_XDIST_WORKER" in os.environ:
            shutil.copy(databases.sqlite(), test["NAME"])
    elif template := os.environ.get("TEST_TEMPLATE"):
        test["TEMPLATE"] = template


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """A copied file is migrated already and goes with its folder, a copied database with its server."""
    copied = connection.vendor == "sqlite" and "PYTEST_XDIST_WORKER" in os.environ
    return django_db_keepdb or copied or "TEST_TEMPLATE" in os.environ


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Django asks SQLite once a connection whether it knows JSON: here, and not amid the first test that counts its queries."""
    with django_db_blocker.unblock():
        assert connection.features.supports_json_field


@pytest.fixture(scope="session", autouse=True)
def empty_what_was_committed() -> Iterator[None]:
    """After a transactional test. Django's flush is refused by the triggers of append-only tables, and takes longer than many
    tests: it empties each table, filled or not (on PostgreSQL that replaces some five hundred files), and stores all
    permissions again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: _empty())
        yield


def _empty() -> None:
    """Delete all rows but those that migrations and Django's permissions are; the chains begin anew."""
    names = {*connection.introspection.django_table_names()} - {ContentType._meta.db_table, Permission._meta.db_table}
    quoted = [connection.ops.quote_name(name) for name in sorted(names)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{each}' WHERE EXISTS (SELECT 1 FROM {each})" for each in quoted))
        filled = [name for (name,) in cursor.fetchall()]
        statements = [f"DELETE FROM {name}" for name in filled]
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_no_delete'"
            )
            refusing = [found for found in cursor.fetchall() if f'"{found[1]}"' in filled]
            statements[:0] = [f"DROP TRIGGER {name}" for name, _table, _sql in refusing]
            statements += [sql for _name, _table, sql in refusing]
        else:
            statements[:0] = ["SET LOCAL session_replication_role = replica"]  # no triggers, no foreign keys
        for statement in statements:
            cursor.execute(statement)
        for name in (EVENTS, PERSON_EVENTS):
            ChainHead.objects.create(name=name, sequence=0, hash=GENESIS, key="00" * 32)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium: playwright's own is a download. Without one, a skip by name; on CI a failure.

    Playwright keeps an event loop in the thread of the tests for as long as it lives: Django takes that for a mistake, and
    `async_to_sync` cannot work beside it. So browser tests have a pass of their own (`-m browser`).
    """
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        executable = servers.chromium()
    except servers.Missing as missing:
        if servers.ci():
            raise
        pytest.skip(str(missing))
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    return {**browser_type_launch_args, "executable_path": executable, "args": quiet}


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its language behind in the thread; no test is to find the one of the test before."""
    with translation.override("en"):
        yield


@pytest.fixture(scope="session", autouse=True)
def settings_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What no test is without. Folders are never those of the site in this folder, whose worker would meet our messages."""
    queue = tmp_path_factory.mktemp("queue")
    for folder in ("messages", "processed", "control"):
        (queue / folder).mkdir()
    celery.conf.broker_transport_options |= {
        "data_folder_in": str(queue / "messages"),
        "data_folder_out": str(queue / "messages"),
        "processed_folder": str(queue / "processed"),
        "control_folder": str(queue / "control"),
    }
    with override_settings(
        MHB_IMAGES=tmp_path_factory.mktemp("images"),
        # As many lanes a job on every database; a test that wants more says so.
        MHB_LANES=1,
        # Tests give back more cases in an hour than a physician may; those of the limit set their own.
        MHB_RELEASES_PER_HOUR=10_000,
        # The variables that tests name for keys, as an operator would list them.
        MHB_ENDPOINT_ACCESS=ACCESS,
        # A real password hash takes as long as a whole test.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        # The names that collectstatic would make are production's; the suite collects nothing and lists no files for clients.
        WHITENOISE_AUTOREFRESH=True,
        STORAGES={
            **settings.STORAGES,
            "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        },
    ):
        yield


_FOLDERS: dict[str, Path] = {}


@pytest.fixture
def made_once(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Callable[[Path], object]], Path]:
    """A folder that `make` writes for the first test of a file that asks, and of which the others get a copy each.

    For those that need the folder alone: what the first one had in its database is gone.
    """

    def copied(make: Callable[[Path], object]) -> Path:
        key = f"{request.node.path}:{make.__qualname__}"
        if key not in _FOLDERS:
            made = tmp_path_factory.mktemp("once") / "out"
            make(made)
            _FOLDERS[key] = made
        shutil.copytree(_FOLDERS[key], tmp_path / "out")
        return tmp_path / "out"

    return copied


CAST: dict[str, dict[str, Any]] = {
    "adela": {"role": UserRole.ADMIN, "first_name": "Adela", "last_name": "Admin"},
    "rui": {"role": UserRole.RESEARCHER, "first_name": "Rui", "last_name": "Researcher"},
    "ana": {"first_name": "Ana", "last_name": "Alves", "specialty": "Cardiology"},
    "bo": {"first_name": "Bo", "last_name": "Berg", "specialty": "Nephrology"},
    "chen": {"first_name": "Chen", "last_name": "Li", "specialty": "Internal medicine", "languages": ["zh", "en"]},
    "dina": {"first_name": "Dina", "last_name": "Daoud", "specialty": "Paediatrics"},
    "emil": {"first_name": "Emil", "last_name": "Eder", "specialty": "Oncology"},
    "fei": {"first_name": "Fei", "last_name": "Wu", "specialty": "Neurology", "languages": ["zh"]},
}


PHYSICIANS = ("ana", "bo", "chen", "dina", "emil", "fei")


def cast(*names: str) -> list[User]:
    """The accounts of these; who has one already gets no other."""
    return [User.objects.filter(username=name).first() or account(name, **CAST[name]) for name in names]


@pytest.fixture
def adela(db: None) -> User:
    """The admin."""
    return cast("adela")[0]


@pytest.fixture
def rui(db: None) -> User:
    """The researcher: reads results, nothing else."""
    return cast("rui")[0]


@pytest.fixture
def ana(db: None) -> User:
    return cast("ana")[0]


@pytest.fixture
def bo(db: None) -> User:
    return cast("bo")[0]


@pytest.fixture
def chen(db: None) -> User:
    return cast("chen")[0]


@pytest.fixture
def dina(db: None) -> User:
    return cast("dina")[0]


@pytest.fixture
def emil(db: None) -> User:
    return cast("emil")[0]


@pytest.fixture
def fei(db: None) -> User:
    return cast("fei")[0]


@pytest.fixture
def physicians(ana: User, bo: User, chen: User, dina: User, emil: User, fei: User) -> list[User]:
    """All six, in the order of their names."""
    return [ana, bo, chen, dina, emil, fei]


class Clock:
    """What `timezone.now` says; it moves only when told to."""

    def __init__(self) -> None:
        self.now = timezone.now()

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time in the hands of the test: `clock.advance(minutes=16)`."""
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock)
    return clock


Together = Callable[[Sequence[Callable[[], Any]]], list[Any]]


@pytest.fixture
def together(transactional_db: None) -> Together:
    """Run functions at once, each in a thread and on a connection of its own; what each returned or raised, in order."""

    def run(functions: Sequence[Callable[[], Any]]) -> list[Any]:
        start = threading.Barrier(len(functions))
        outcomes: list[Any] = [None] * len(functions)

        def one(index: int, function: Callable[[], Any]) -> None:
            try:
                connection.ensure_connection()
                start.wait(timeout=120)
                outcomes[index] = function()
            except Exception as error:  # the outcome, for the test to judge
                outcomes[index] = error
            finally:
                connections.close_all()

        threads = [threading.Thread(target=one, args=pair) for pair in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=300)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs: a deadlock?"
        return outcomes

    return run
