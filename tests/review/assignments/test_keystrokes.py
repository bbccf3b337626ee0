"""The bench's keystroke scripts meet their goals for keys and stops, without a refused submit."""

from typing import Any

import pytest
from playwright.sync_api import Page

from bench import keystrokes

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

# Whether the first open question, what it shows, and the beginning of the text are in view.
IN_VIEW = """() => {
  const inView = (element) => {
    const box = element.getBoundingClientRect();
    return box.top >= 0 && box.bottom <= document.querySelector(".split__submit").getBoundingClientRect().top;
  };
  const stops = [...document.querySelectorAll("[data-answers] [data-stop]")].filter((one) => one.checkVisibility());
  const stop = stops.find((one) => !one.querySelector(":checked"));
  const shown = [...stop.closest(".question").querySelectorAll(".within")];
  const text = document.querySelector(".split__text .blocks").getBoundingClientRect();
  return [...shown, stop].every(inView) && text.top < 130;
}"""


def test_no_stage_needs_scrolling_to_show_what_its_question_is_about(page: Page, live_server: Any) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    for name, held in keystrokes.prepare().items():
        if name == "confirmation":
            continue  # every question is answered; the differences are first
        page.context.clear_cookies()
        cookie = held["cookie"]
        page.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": live_server.url}])
        page.goto(f"{live_server.url}/review/assignments/{held['assignment']}/")
        page.wait_for_load_state("networkidle")
        assert page.evaluate(IN_VIEW), name
        if (reveal := page.get_by_role("button", name="Reveal traps")).count():
            keyboard = keystrokes.Keyboard(page, held["digits"])
            keyboard.answer()
            with page.expect_navigation():
                reveal.click()
            page.wait_for_load_state("networkidle")
            assert page.evaluate(IN_VIEW), f"{name}, revealed"


def test_each_script_meets_its_goal(page: Page, live_server: Any) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    page.set_default_timeout(20_000)
    prepared = keystrokes.prepare()
    runs = {name: keystrokes.walk(page, live_server.url, name, prepared[name]) for name in keystrokes.SCRIPTS}
    missed = [row for row in keystrokes.results(runs) if not row.met]
    assert not missed, (missed, {name: run.pressed for name, run in runs.items()})
