"""The processes of the demo: those that die are restarted, and none outlives the demo."""

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


def is_healthy(port: int) -> bool:
    with contextlib.suppress(OSError):  # not listening yet, or about to exit
        return get(port, "/health/").status == 200
    return False


def test_a_killed_web_server_is_restarted(tmp_path: Path) -> None:
    with running_site("embedded", tmp_path) as site:
        site.start_web()
        web = site.children.processes["web"]
        server = web.pid
        with connect(site.port, b"GET / HTTP/1.1\r\n"):
            os.kill(server, signal.SIGKILL)
            site.wait_until("a new server runs", lambda: site.children.processes["web"].pid != server)
            site.wait_until("the site answers", lambda: is_healthy(site.port))
        assert web.wait() == web.poll() == -signal.SIGKILL
        assert len(site.children.deaths["web"]) == 1


def test_a_command_returns_its_exit_code_and_output(tmp_path: Path) -> None:
    """This also holds for the commands that tests fork."""
    with running_site("embedded", tmp_path) as site:
        refused = site.manage("no_such_command")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Unknown command" in refused.stderr
        printed = site.manage("shell", "-v0", "-c", "import sys; print(sys.argv[0], 'x' * 200_000); sys.exit(3)")
        assert (printed.returncode, printed.stdout, printed.stderr) == (3, f"manage.py {'x' * 200_000}\n", "")


def test_no_descendant_of_a_stopped_child_survives(tmp_path: Path) -> None:
    """A grandchild that ignores SIGTERM is killed with the child."""
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
    pytest.fail("the grandchild is still alive")
