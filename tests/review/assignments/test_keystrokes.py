"""The bench's keystroke scripts meet their goals for keys and stops, without a refused submit."""

from typing import Any

import pytest
from playwright.sync_api import Page

from bench import keystrokes

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]


def test_each_script_meets_its_goal(page: Page, live_server: Any) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    page.set_default_timeout(20_000)
    prepared = keystrokes.prepare()
    runs = {name: keystrokes.walk(page, live_server.url, name, prepared[name]) for name in keystrokes.SCRIPTS}
    missed = [row for row in keystrokes.results(runs) if not row.met]
    assert not missed, (missed, {name: run.pressed for name, run in runs.items()})
