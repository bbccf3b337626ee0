"""Fixtures for all tests: accounts, and a test database that several threads can use.

The database is that of the settings: SQLite, or PostgreSQL where MHB_DATABASE_URL, MHB_SECRET_KEY
and MHB_HTTPS are set (then run pytest with `-m "not sqlite_only"`). A test that must differ between
them asks `connection.vendor`. `tests.passes` decides which test runs on which database.
"""

import gc
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.test import Client, TransactionTestCase, override_settings
from django.utils import timezone, translation

from bench import servers
from generation.llm.http.access import Access
from mhb_site.celery import app as celery
from mhb_site.server import startup
from review.audit.chain_entries import GENESIS
from review.audit.trail import EVENTS, PERSON_EVENTS
from review.models import ChainHead, User
from review.rules.permissions import UserRole
from tests import databases
from tests.profile import by_profile, installed
from tests.review.factories import account

# No deadlines, because a busy machine must not fail a test. The same examples in every run, so that
# what passes here passes in CI.
hypothesis.settings.register_profile("mhb", deadline=None, derandomize=True, max_examples=by_profile(25, 100))
hypothesis.settings.load_profile("mhb")


# Environment variables from which tests may take endpoint keys.
ACCESS = Access(
    keys=dict.fromkeys(("OWN_KEY", "OWN_KEY_THAT_IS_NOT_SET", "OWN_TEST_KEY", "HOUSE_KEY", "MHB_TEST_KEY"), ())
)

pytest_plugins = ["tests.passes", "tests.populations"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep migrated databases for the whole run.

    Workers of xdist use the folder of the main process.
    """
    stack = ExitStack()
    stack.enter_context(databases.shared_folder())
    config.add_cleanup(stack.close)
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt everything imported and collected so far from garbage collection.

    It lives until the end, and every collection would walk through it again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Put SQLite's test database into a file, and copy a migrated database where there is one.

    In memory, threads would share the locks of one connection, and a test of locking would prove
    nothing. Migrating takes longer than many tests, so the workers of xdist copy one migrated
    database.
    """
    test = connection.settings_dict["TEST"]
    if connection.vendor == "sqlite":
        folder: Path = tmp_path_factory.mktemp("database")  # one per xdist worker
        test["NAME"] = str(folder / "test.sqlite3")
        if "PYTEST_XDIST_WORKER" in os.environ:
            shutil.copy(databases.migrated_sqlite(), test["NAME"])
    elif template := os.environ.get("TEST_TEMPLATE"):
        test["TEMPLATE"] = template


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """Keep copied databases: they are migrated already, and deleted with their folder or server."""
    copied = connection.vendor == "sqlite" and "PYTEST_XDIST_WORKER" in os.environ
    return django_db_keepdb or copied or "TEST_TEMPLATE" in os.environ


@pytest.fixture(scope="session", autouse=True)
def ready_database() -> None:
    """Requests need not look whether the database is migrated: some tests have none."""
    startup._READY.set()


@pytest.fixture(scope="session", autouse=True)
def fast_flush() -> Iterator[None]:
    """Empty the database after a transactional test in our own way, instead of by Django's flush.

    The triggers of append-only tables refuse Django's flush. It also takes longer than many tests,
    because it empties every table, whether it has rows or not (on PostgreSQL that replaces some
    five hundred files), and stores all permissions again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: _delete_all_rows())
        yield


def _delete_all_rows() -> None:
    """Delete all rows except content types and permissions, and restart the audit chains."""
    names = {*connection.introspection.django_table_names()} - {ContentType._meta.db_table, Permission._meta.db_table}
    quoted = [connection.ops.quote_name(name) for name in sorted(names)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in quoted))
        filled = [name for (name,) in cursor.fetchall()]
        statements = [f"DELETE FROM {name}" for name in filled]
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_no_delete'"
            )
            triggers = [trigger for trigger in cursor.fetchall() if f'"{trigger[1]}"' in filled]
            statements[:0] = [f"DROP TRIGGER {name}" for name, _table, _sql in triggers]
            statements += [sql for _name, _table, sql in triggers]
        else:
            statements[:0] = ["SET LOCAL session_replication_role = replica"]  # no triggers, no foreign keys
        for statement in statements:
            cursor.execute(statement)
        for name in (EVENTS, PERSON_EVENTS):
            ChainHead.objects.create(name=name, sequence=0, hash=GENESIS, key="00" * 32)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Use the system's Chromium, because playwright's own is a download.

    Without Chromium the test is skipped by name; on CI it fails.

    Playwright keeps an event loop in the thread of the tests for as long as it lives. Django takes
    that for a mistake, and `async_to_sync` does not work beside it, so browser tests have a pass of
    their own (`-m browser`).
    """
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with installed():
        executable = servers.chromium()
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    return {**browser_type_launch_args, "executable_path": executable, "args": options}


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Begin each test in English: an earlier request may have left its language in the thread."""
    with translation.override("en"):
        yield


@pytest.fixture(scope="session", autouse=True)
def settings_for_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Override the settings for all tests.

    Queue and images are in temporary folders: the worker of a site that runs in this working copy
    would otherwise receive the messages of the tests.
    """
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
        # The same number of lanes per job on every database; a test that needs more overrides it.
        MHB_LANES=1,
        # One lane does all rows of a job, however slow the machine is.
        MHB_LANE_SECONDS=3_600,
        # Tests give back more cases per hour than a physician may; those of the limit set their
        # own.
        MHB_RELEASES_PER_HOUR=10_000,
        # The key variables that tests use, as an operator would list them.
        MHB_ENDPOINT_ACCESS=ACCESS,
        # A real password hash takes as long as a whole test.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        # Only production runs collectstatic, so there are no hashed file names to look up, and
        # WhiteNoise finds files when they are asked for instead of listing them at the start.
        WHITENOISE_AUTOREFRESH=True,
        STORAGES={
            **settings.STORAGES,
            "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        },
    ):
        yield


_FOLDERS: dict[str, Path] = {}


@pytest.fixture
def cached_folder(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Callable[[Path], object]], Path]:
    """`cached_folder(write)` returns a copy of a folder that `write` fills once per test file.

    Only for tests that need nothing but the folder: the rows that `write` made while the first test
    ran are gone in the others.
    """

    def copy(write: Callable[[Path], object]) -> Path:
        key = f"{request.node.path}:{write.__qualname__}"
        if key not in _FOLDERS:
            folder = tmp_path_factory.mktemp("once") / "out"
            write(folder)
            _FOLDERS[key] = folder
        shutil.copytree(_FOLDERS[key], tmp_path / "out")
        return tmp_path / "out"

    return copy


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


def accounts_of(*names: str) -> list[User]:
    """Return the accounts of these members of CAST, in this order; missing ones are made."""
    return [User.objects.filter(username=name).first() or account(name, **CAST[name]) for name in names]


@pytest.fixture
def adela(db: None) -> User:
    """The admin."""
    return accounts_of("adela")[0]


@pytest.fixture
def rui(db: None) -> User:
    """The researcher, who reads results and nothing else."""
    return accounts_of("rui")[0]


def _account_fixture(name: str) -> Any:
    def member(db: None) -> User:
        return accounts_of(name)[0]

    return pytest.fixture(name=name)(member)


ana, bo, chen, dina, emil, fei = map(_account_fixture, PHYSICIANS)


@pytest.fixture
def physicians(ana: User, bo: User, chen: User, dina: User, emil: User, fei: User) -> list[User]:
    """All six physicians, in the order of their names."""
    return [ana, bo, chen, dina, emil, fei]


@pytest.fixture
def admin(adela: User) -> Client:
    """A client that is signed in as the admin, besides the fixture `client`."""
    client = Client()
    client.force_login(adela)
    return client


@pytest.fixture
def sent_tasks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record the tasks that would be sent to a worker, as (name, arguments), and send none."""
    sent: list[tuple[Any, ...]] = []

    def note(task: Any, *args: int) -> None:
        sent.append((task.name.rpartition(".")[2], *args))

    monkeypatch.setattr("review.common.waking.wake", note)
    monkeypatch.setattr("review.common.waking.waiting_messages", lambda _task: 0)
    return sent


class Clock:
    """A replacement for `timezone.now` that moves only when it is advanced."""

    def __init__(self) -> None:
        self.now = timezone.now()

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> None:
        """Move forward; takes the keywords of `timedelta`."""
        self.now += timedelta(**duration)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stop the time for the test, which advances it itself: `clock.advance(minutes=16)`."""
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock)
    return clock


RunConcurrently = Callable[[Sequence[Callable[[], Any]]], list[Any]]
Beside = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def run_concurrently(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> RunConcurrently:
    """Run functions at the same time, each in a thread with its own database connection.

    For lanes, each thread is a worker process.

    Returns what each function returned or raised, in their order.
    """

    monkeypatch.setattr("generation.engine.worker_lane.process_name", lambda: f"thread:{threading.get_ident()}")

    def run(functions: Sequence[Callable[[], Any]]) -> list[Any]:
        start = threading.Barrier(len(functions))
        outcomes: list[Any] = [None] * len(functions)

        def run_one(index: int, function: Callable[[], Any]) -> None:
            try:
                connection.ensure_connection()
                start.wait(timeout=120)
                outcomes[index] = function()
            except Exception as error:  # an outcome too, which the test checks
                outcomes[index] = error
            finally:
                connections.close_all()

        threads = [threading.Thread(target=run_one, args=pair) for pair in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=300)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs: a deadlock?"
        return outcomes

    return run


@contextmanager
def impatient() -> Iterator[None]:
    """Wait for a lock on this connection only 50 ms.

    Undone at the end: a pool gives the connection, with its settings, to another test.
    """
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 50" if is_sqlite else "SET lock_timeout = '50ms'")
    try:
        yield
    finally:
        if is_sqlite:
            connection.close()
        else:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")


@pytest.fixture
def beside(run_concurrently: RunConcurrently) -> Beside:
    """Run a function on another connection, where a lock is waited for only 50 ms.

    Returns what it returned or raised: an OperationalError if somebody held a lock that it needs.
    """

    def run_impatiently(function: Callable[[], Any]) -> Any:
        with impatient():
            return function()

    return lambda function: run_concurrently([partial(run_impatiently, function)])[0]
