"""The processes of the demo: who dies is started again, whatever is left of it."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mhb_site.server import children
from tests.processes import running_site
from tests.site.test_web_server import connect, get

pytestmark = [pytest.mark.processes, pytest.mark.plain]


PARENT = """
import os, pathlib, signal, time
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path("child").touch()
time.sleep(60)
"""


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):  # nobody listens yet, or the old one is just going
        return get(port, "/health/").status == 200
    return False


def test_killed_master_is_started_again(tmp_path: Path) -> None:
    """kill -9 of gunicorn alone: its workers would keep the port, with clients that say nothing for as long as those stay."""
    with running_site("embedded", tmp_path) as site:
        site.start_web()
        web = site.children.processes["web"]
        master = web.pid
        with connect(site.port, b"GET / HTTP/1.1\r\n"):
            os.kill(master, signal.SIGKILL)
            site.wait_until("there is another", lambda: site.children.processes["web"].pid != master)
            site.wait_until("it answers", lambda: answers(site.port))
        assert web.wait() == web.poll() == -signal.SIGKILL
        assert len(site.children.deaths["web"]) == 1


def test_a_command_is_told_by_its_code_and_what_it_said(tmp_path: Path) -> None:
    """Also where the tests fork it."""
    with running_site("embedded", tmp_path) as site:
        refused = site.manage("no_such_command")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Unknown command" in refused.stderr
        said = site.manage("shell", "-v0", "-c", "import sys; print(sys.argv[0], 'x' * 200_000); sys.exit(3)")
        assert (said.returncode, said.stdout, said.stderr) == (3, f"manage.py {'x' * 200_000}\n", "")


def test_nobody_is_left_of_a_child_that_stopped(tmp_path: Path) -> None:
    """A grandchild that does not listen to anybody goes with the child."""
    family = children.Children(cwd=str(tmp_path))
    family.start("parent", [sys.executable, "-c", PARENT])
    end = time.monotonic() + 10
    while not (tmp_path / "child").exists() and time.monotonic() < end:
        time.sleep(0.02)
    group = family.processes["parent"].pid
    family.stop()
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("the grandchild lives")
