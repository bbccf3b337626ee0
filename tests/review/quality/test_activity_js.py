"""What the page measures, in a real Chromium whose clock the test holds: hidden does not count, nor does being away."""

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
START = 1_800_000_000_000  # the server's clock, milliseconds
AHEAD = 3_600_000  # the reader's clock is an hour slow
PAGE = f"""<!doctype html><title>A case</title><form><input name="csrfmiddlewaretoken" value="a-token"></form>
<div data-activity="/activity/" data-allowance="120" data-now="{START}"></div>
<script type="module" src="/activity.js"></script>"""
PRETEND = """
window.beacons = [];
navigator.sendBeacon = (address, form) => beacons.push([address, form.get("csrfmiddlewaretoken"), form.get("stretches")]);
let hidden = false;
Object.defineProperty(document, "hidden", { get: () => hidden });
window.show = (visible) => { hidden = !visible; document.dispatchEvent(new Event("visibilitychange")); };
"""

Stretches = list[list[int]]


@dataclass
class Reader:
    """Somebody with the case open, and what reached the server: seconds since the page was opened."""

    page: Page
    status: int = 204
    posts: list[Stretches] = field(default_factory=list)

    def answer(self, route: Route) -> None:
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

    def passes(self, seconds: int) -> None:
        self.page.clock.run_for(seconds * 1000)

    def has_posted(self, count: int) -> Stretches:
        """What the last of `count` messages said, once it has come."""
        while len(self.posts) < count:
            self.page.evaluate("null")  # lets what is on its way arrive
        assert len(self.posts) == count
        return self.posts[-1]

    def touches(self) -> None:
        self.page.evaluate("document.dispatchEvent(new Event('keydown'))")

    def beacons(self) -> list[Stretches]:
        return [seconds(sent) for _address, _token, sent in self.page.evaluate("beacons")]


def seconds(stretches: str) -> Stretches:
    return [[round((at - START) / 1000) for at in stretch] for stretch in json.loads(stretches)]


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    page = browser.new_context().new_page()
    reading = Reader(page)
    page.clock.install(time=(START - AHEAD) / 1000 - 600)
    page.clock.pause_at((START - AHEAD) / 1000)
    page.add_init_script(PRETEND)
    page.route("**/*", reading.answer)
    page.goto(f"{SITE}/")
    yield reading
    page.context.close()


def test_time_is_sent_as_it_goes_by_in_the_servers_time(reader: Reader) -> None:
    reader.passes(30)
    assert reader.has_posted(1) == [[0, 30]]
    reader.passes(30)
    assert reader.has_posted(2) == [[0, 60]]


def test_a_hidden_page_does_not_count(reader: Reader) -> None:
    reader.passes(10)
    reader.page.evaluate("show(false)")
    reader.passes(300)
    assert reader.beacons() == [[[0, 10]]]
    assert reader.posts == []
    reader.page.evaluate("show(true)")
    reader.passes(15)
    reader.page.evaluate("show(false)")
    assert reader.beacons() == [[[0, 10]], [[310, 325]]]
    reader.passes(60)
    reader.touches()  # a script's event, for nobody is there
    reader.passes(60)
    assert len(reader.beacons()) == 2


def test_who_touches_nothing_is_away_after_the_allowance(reader: Reader) -> None:
    reader.passes(100)
    reader.touches()
    reader.passes(600)
    reader.touches()
    reader.passes(20)
    reader.page.evaluate("show(false)")
    sent = [stretch for stretches in [*reader.posts, *reader.beacons()] for stretch in stretches]
    assert max(ended for began, ended in sent if began == 0) == 220
    assert [700, 720] in sent
    assert {began for began, _ended in sent} == {0, 700}


def test_what_could_not_be_sent_is_sent_again(reader: Reader) -> None:
    reader.status = 503
    for sent in range(1, 6):  # away from the 120th second on
        reader.passes(30)
        reader.has_posted(sent)
    reader.status = 204
    with reader.page.expect_response("**/activity/"):
        reader.passes(30)
    reader.page.evaluate("fetch('/').then(() => null)")  # by now the page knows its answer
    assert reader.posts[4:] == [[[0, 120]], [[0, 120]]]
    reader.passes(90)
    reader.page.evaluate("show(false)")
    assert reader.beacons() == []
    assert len(reader.posts) == 6


def test_leaving_the_page_sends_what_is_left(reader: Reader) -> None:
    reader.passes(12)
    reader.page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    assert reader.page.evaluate("beacons") == [
        ["/activity/", "a-token", json.dumps([[START, START + 12_000]], separators=(",", ":"))]
    ]


def test_the_sign_in_page_is_not_taken_for_the_servers_word(reader: Reader) -> None:
    """A session that ended leads there, and it answers 200."""
    reader.page.evaluate("Object.defineProperty(Response.prototype, 'redirected', { get: () => true }); null")
    for sent in range(1, 6):  # away from the 120th second on
        reader.passes(30)
        reader.has_posted(sent)
    reader.page.evaluate("fetch('/').then(() => null)")  # by now the page knows its answer
    reader.page.evaluate("show(false)")
    assert reader.beacons() == [[[0, 120]]]
