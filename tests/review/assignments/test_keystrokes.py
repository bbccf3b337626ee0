"""As many keys and stops as a review may take, and no submit that is sent back: the scripts of the bench, held to its goals."""

from typing import Any

import pytest
from playwright.sync_api import Page

from bench import keystrokes

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]


def test_each_script_keeps_to_its_goal(page: Page, live_server: Any) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    page.set_default_timeout(20_000)
    told = keystrokes.prepare()
    walked = {name: keystrokes.walk(page, live_server.url, name, told[name]) for name in keystrokes.SCRIPTS}
    missed = [row for row in keystrokes.results(walked) if not row.met]
    assert not missed, (missed, {name: hands.pressed for name, hands in walked.items()})
