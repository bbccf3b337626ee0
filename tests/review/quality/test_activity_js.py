"""The activity script in a real Chromium with a fake clock: hidden and idle time do not count."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.plain]

SCRIPT = Path(__file__).parents[3] / "static/mhb/js/activity.js"
SITE = "https://mhb.invalid"
START = 1_800_000_000_000  # the server's time in milliseconds
CLOCK_LAG = 3_600_000  # the reader's clock is an hour slow, in milliseconds
PAGE = f"""<!doctype html><title>A case</title><form><input name="csrfmiddlewaretoken" value="a-token"></form>
<div data-activity="/activity/" data-allowance="120" data-now="{START}"></div>
<script type="module" src="/activity.js"></script>"""
FAKES = """
window.beacons = [];
navigator.sendBeacon = (address, form) => beacons.push([address, form.get("csrfmiddlewaretoken"), form.get("stretches")]);
let hidden = false;
Object.defineProperty(document, "hidden", { get: () => hidden });
window.show = (visible) => { hidden = !visible; document.dispatchEvent(new Event("visibilitychange")); };
"""

Stretches = list[list[int]]


@dataclass
class Reader:
    """A reader with the case open, and the messages that reached the server.

    Times are seconds since the page was opened.
    """

    page: Page
    status: int = 204
    posts: list[Stretches] = field(default_factory=list)

    def serve(self, route: Route) -> None:
        address = route.request.url.removeprefix(SITE)
        if address == "/activity/":
            body = route.request.post_data or ""
            assert 'name="csrfmiddlewaretoken"' in body
            self.posts.append(seconds(re.search(r"\[\[.*?\]\]", body)[0]))  # type: ignore[index]
            route.fulfill(status=self.status)
        elif address == "/activity.js":
            route.fulfill(body=SCRIPT.read_text(), content_type="text/javascript")
        else:
            route.fulfill(body=PAGE, content_type="text/html")

    def wait(self, seconds: int) -> None:
        self.page.clock.run_for(seconds * 1000)

    def wait_for_post(self, count: int) -> Stretches:
        """Wait until `count` messages have arrived, and return the last one."""
        while len(self.posts) < count:
            self.page.evaluate("null")  # gives pending requests time to arrive
        assert len(self.posts) == count
        return self.posts[-1]

    def press_key(self) -> None:
        self.page.evaluate("document.dispatchEvent(new Event('keydown'))")

    def beacons(self) -> list[Stretches]:
        return [seconds(stretches) for _address, _token, stretches in self.page.evaluate("beacons")]


def seconds(stretches: str) -> Stretches:
    """The stretches of a message, in seconds since the page was opened."""
    return [[round((time - START) / 1000) for time in stretch] for stretch in json.loads(stretches)]


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    page = browser.new_context().new_page()
    reader = Reader(page)
    page.clock.install(time=(START - CLOCK_LAG) / 1000 - 600)
    page.clock.pause_at((START - CLOCK_LAG) / 1000)
    page.add_init_script(FAKES)
    page.route("**/*", reader.serve)
    page.goto(f"{SITE}/")
    yield reader
    page.context.close()


def test_time_is_sent_regularly_in_the_servers_time(reader: Reader) -> None:
    reader.wait(30)
    assert reader.wait_for_post(1) == [[0, 30]]
    reader.wait(30)
    assert reader.wait_for_post(2) == [[0, 60]]


def test_a_hidden_page_does_not_count(reader: Reader) -> None:
    reader.wait(10)
    reader.page.evaluate("show(false)")
    reader.wait(300)
    assert reader.beacons() == [[[0, 10]]]
    assert reader.posts == []
    reader.page.evaluate("show(true)")
    reader.wait(15)
    reader.page.evaluate("show(false)")
    assert reader.beacons() == [[[0, 10]], [[310, 325]]]
    reader.wait(60)
    reader.press_key()  # a script's event: the page is hidden
    reader.wait(60)
    assert len(reader.beacons()) == 2


def test_a_reader_without_input_is_idle_after_the_allowance(reader: Reader) -> None:
    reader.wait(100)
    reader.press_key()
    reader.wait(600)
    reader.press_key()
    reader.wait(20)
    reader.page.evaluate("show(false)")
    sent = [stretch for stretches in [*reader.posts, *reader.beacons()] for stretch in stretches]
    assert max(end for start, end in sent if start == 0) == 220
    assert [700, 720] in sent
    assert {start for start, _end in sent} == {0, 700}


def test_stretches_that_could_not_be_sent_are_sent_again(reader: Reader) -> None:
    reader.status = 503
    for count in range(1, 6):  # idle from the 120th second on
        reader.wait(30)
        reader.wait_for_post(count)
    reader.status = 204
    with reader.page.expect_response("**/activity/"):
        reader.wait(30)
    reader.page.evaluate("fetch('/').then(() => null)")  # afterwards the page has handled the answer
    assert reader.posts[4:] == [[[0, 120]], [[0, 120]]]
    reader.wait(90)
    reader.page.evaluate("show(false)")
    assert reader.beacons() == []
    assert len(reader.posts) == 6


def test_leaving_the_page_sends_the_remaining_time(reader: Reader) -> None:
    reader.wait(12)
    reader.page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    assert reader.page.evaluate("beacons") == [
        ["/activity/", "a-token", json.dumps([[START, START + 12_000]], separators=(",", ":"))]
    ]


def test_a_redirect_to_the_sign_in_page_does_not_count_as_sent(reader: Reader) -> None:
    """After the session has ended, requests are redirected to that page, which answers 200."""
    reader.page.evaluate("Object.defineProperty(Response.prototype, 'redirected', { get: () => true }); null")
    for count in range(1, 6):  # idle from the 120th second on
        reader.wait(30)
        reader.wait_for_post(count)
    reader.page.evaluate("fetch('/').then(() => null)")  # afterwards the page has handled the answer
    reader.page.evaluate("show(false)")
    assert reader.beacons() == [[[0, 120]]]
