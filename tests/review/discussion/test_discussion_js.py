"""The discussion's script in a real Chromium: quoting a passage, marking quotes, unsent remarks."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.plain]

SCRIPT = Path(__file__).parents[3] / "static/mhb/js/talk.js"
SITE = "https://mhb.invalid"
PAGE = """<!doctype html><title>A case</title>
<style>.diff__side--before ins, .diff__side--after del { display: none }</style>
<p class="callout__text" data-passage="1.1">Is the nodule new?</p>
<div class="diff__side diff__side--after"><div data-passage="2.3">I take <del>5</del><ins>50</ins> mg.</div></div>
<details data-talk><summary>Discussion</summary>
<blockquote data-quote>nodule</blockquote><blockquote data-quote>take 50 mg</blockquote>
<form data-remark="mhb-draft:remark:1:2"><textarea name="text"></textarea><textarea name="quote" data-quote-input></textarea>
<input type="hidden" name="passage" data-passage-input>
<button type="button" data-mention="@ada" title="Ada Admin">@ada</button>
<button type="button" data-mention="@bo" title="Bo Lindqvist">@bo</button></form></details>
<script type="module" src="/talk.js"></script>"""
SELECT = "(passage) => getSelection().selectAllChildren(document.querySelector(`[data-passage='${passage}']`))"
HTMX_RESPONSE = """(status) => document.dispatchEvent(new CustomEvent("htmx:beforeSwap", { detail: {
  xhr: { status }, requestConfig: { elt: document.querySelector("[data-remark]") } } }))"""


@pytest.fixture
def case(page: Page) -> Page:
    def serve(route: Route) -> None:
        script = route.request.url.endswith("/talk.js")
        body, kind = (SCRIPT.read_text(), "text/javascript") if script else (PAGE, "text/html")
        route.fulfill(body=body, content_type=kind)

    page.route("**/*", serve)
    page.goto(SITE)
    return page


def form_values(page: Page) -> list[str]:
    """Text, quote and passage in the form of a new remark."""
    return [page.locator(f"[name={name}]").input_value() for name in ("text", "quote", "passage")]


def test_any_passage_can_be_quoted_and_quoted_ones_are_marked(case: Page) -> None:
    assert case.evaluate('[...CSS.highlights.get("remark")].length') == 2
    case.evaluate(SELECT, "2.3")
    case.wait_for_function("document.querySelector('[data-quote-input]').value")
    assert form_values(case) == ["", "I take 50 mg.", "2.3"]


def test_an_unsent_remark_survives_a_reload_until_it_is_accepted(case: Page) -> None:
    case.evaluate("document.querySelector('details').open = true")
    case.fill("[name=text]", "Half a thou")
    case.evaluate(HTMX_RESPONSE, 422)
    case.reload()
    case.wait_for_function("document.querySelector('[name=text]').value")
    assert form_values(case) == ["Half a thou", "", ""]
    case.evaluate(HTMX_RESPONSE, 200)
    case.reload()
    case.wait_for_function("CSS.highlights.has('remark')")
    assert form_values(case) == ["", "", ""]


def test_a_name_that_is_begun_is_completed_with_those_who_can_be_reached(case: Page) -> None:
    case.evaluate("document.querySelector('details').open = true")
    text, names = case.locator("[name=text]"), case.locator("[data-mention]:visible")
    text.press_sequentially("Please look, @lin")
    assert names.all_inner_texts() == ["@bo"]
    text.press("ArrowDown")
    case.keyboard.press("Enter")
    assert text.input_value() == "Please look, @bo "
    assert names.count() == 2
    text.press_sequentially("and a@b")
    assert names.count() == 2, "an address begins no name"
