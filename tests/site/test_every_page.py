"""axe on every page that answers with HTML, where there is much to show and where there is nothing: light and dark, in both
languages, at three widths.

Made from the routes. A push looks at each page in one language and at one width, the next in turn. What is colour it asks, in
light and in dark, about one of all elements that are painted alike (axe takes most of its time for contrast). The thorough
profile asks everything about every page in all of them. With MHB_SHOTS=<folder> (`make screenshots`) each is kept as a picture
too.
"""

import os
import re
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import path, re_path, resolve, reverse
from playwright.sync_api import Page, expect

from mhb_site.urls import urlpatterns as real_urlpatterns
from review.models import User
from tests.profile import THOROUGH, by_profile
from tests.review.factories import PASSWORD
from tests.site.routes import address, django_admin
from tests.site.test_permissions import GONE, PUBLIC, TABLE, expected
from tests.site.test_second_factor import code
from tests.site.world import World, people

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]


def broken(request: Any) -> HttpResponse:
    raise RuntimeError("a page that breaks")


def nothing_new(request: HttpRequest) -> HttpResponseBase:
    """To a page that asks how far work has come: what is replaced while axe looks has no colours to judge."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=204)
    request.resolver_match = found = resolve(request.path, "mhb_site.urls")
    answer: HttpResponseBase = found.func(request, **found.kwargs)
    return answer


urlpatterns = [
    re_path(r".*/(?:progress|imports|check|peek)/$", nothing_new),
    *real_urlpatterns,
    path("broken/", broken),
]


LANGUAGES, WIDTHS = ("en", "zh-hans"), (1440, 1024, 420)
LOOKS = [(language, width) for width in WIDTHS for language in LANGUAGES]
SHOTS = os.environ.get("MHB_SHOTS", "")
EVERYTHING = {"rules": {"target-size": {"enabled": True}}}  # which axe leaves out unless told
COLOUR = ("color-contrast", "link-in-text-block")
ALL_BUT_COLOUR = {"rules": {**EVERYTHING["rules"], **{rule: {"enabled": False} for rule in COLOUR}}}


# At the top (else the head of the page may lie over what is asked about), no colour half-way between the schemes. What ends
# on one element may begin on those that inherit from it. Asking for the animations computes the styles, so
# there is no need to wait for a frame, which would be painted.
SETTLED = """() => {
    scrollTo(0, 0);
    let moving;
    do {
        moving = document.getAnimations().filter(each => each instanceof CSSTransition);
        for (const each of moving) each.finish();
    } while (moving.length);
}"""


# One element with text of each look: its colours, its size, whatever lies behind it and, of a link, the text around it. What
# was asked about on an earlier page is not asked about again. What is placed over others, or drawn in a chart, may have
# anything behind it: all of those are asked about. At the top of a page what sticks there lies over nothing.
PAINTED = """() => {
    const behind = new Map(), seen = new Set(JSON.parse(sessionStorage.getItem("looks") ?? "[]")), chosen = [];
    const layers = element => {
        if (!element) return {key: "", placed: false};
        if (!behind.has(element)) {
            const style = getComputedStyle(element), below = layers(element.parentElement);
            const paint = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.mixBlendMode];
            behind.set(element, {
                key: paint.join() === "rgba(0, 0, 0, 0),none,1,none,normal" ? below.key : `${below.key}/${paint}`,
                placed: below.placed || element.localName === "svg" || ["absolute", "fixed"].includes(style.position)
                    || style.position === "sticky" && style.bottom !== "auto",
            });
        }
        return behind.get(element);
    };
    const beside = link => [...link.parentNode.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const texts = new Set(document.querySelectorAll("input, select, textarea"));
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.add(walker.currentNode.parentElement);
    for (const element of texts) {
        if (!element.checkVisibility({visibilityProperty: true}) || element.getBoundingClientRect().width <= 1) continue;
        const style = getComputedStyle(element), {key, placed} = layers(element);
        const off = element.closest(":disabled, [aria-disabled=true]") || element.closest("label")?.control?.disabled;
        const link = element.closest("a"), around = link && getComputedStyle(link.parentElement);
        const look = [
            element.localName, style.color, style.fontSize, style.fontWeight, style.fontFamily, style.textShadow, !!off, key,
            ...link ? [beside(link), link.parentElement.localName, around.color, getComputedStyle(link).textDecoration] : [],
        ].join("|");
        if (placed || !seen.has(look)) chosen.push(element);
        seen.add(look);
    }
    sessionStorage.setItem("looks", JSON.stringify([...seen]));
    return chosen;
}"""
ASK = f"""async ([colour, options]) => {{
    const context = colour ? {{include: ({PAINTED})()}} : document;
    if (colour && !context.include.length) return [];
    return (await axe.run(context, options)).violations;
}}"""


class Reader:
    """Goes from page to page as one person after the other, and keeps what axe and the console find wrong."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.read: list[str] = []
        self.faults: list[str] = []
        self._client = Client(raise_request_exception=False)
        self._next = cycle(LOOKS)
        page.add_init_script(AXE_SCRIPT)
        page.on("pageerror", lambda error: self._fault(str(error)))
        page.on("console", lambda said: self._fault(said.text) if "Content Security" in said.text else None)

    def _fault(self, what: str) -> None:
        self.faults.append(f"{self.page.url.removeprefix(self.url)}: {what}")

    def becomes(self, person: User | None) -> None:
        self.page.context.clear_cookies()
        self._client = Client(raise_request_exception=False)
        if person is not None:
            self._client.force_login(person)
            session = self._client.cookies[settings.SESSION_COOKIE_NAME].value
            self.page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": self.url}])

    def reads(self, *addresses: str) -> None:
        """Every one that is a page of its own: no fragment, download or redirect."""
        for where in addresses:
            answer: Any = self._client.get(where)
            if b"<html" in b"".join(answer)[:200]:
                for language, widths in self._looks():
                    self._speaks(language)
                    self.page.goto(self.url + where)
                    if self.page.locator("#swagger-ui").count():  # which a script fills
                        self.page.locator(".opblock-tag").first.click()
                        self.page.locator(".opblock-summary-control").first.click()
                        self.page.locator(".opblock-body").wait_for()
                    self.looks(where, widths, language)
        self._speaks("en")  # which the tests read

    def _looks(self) -> Sequence[tuple[str, Sequence[int]]]:
        """The languages in which a page is read, each with its widths."""
        language, width = next(self._next)
        once: list[tuple[str, Sequence[int]]] = [(language, (width,))]
        return by_profile(once, [(each, WIDTHS) for each in LANGUAGES])

    def _speaks(self, language: str) -> None:
        self.page.context.add_cookies([{"name": settings.LANGUAGE_COOKIE_NAME, "value": language, "url": self.url}])

    def looks(self, what: str, widths: Sequence[int] = (), language: str = "en") -> None:
        """At the page as it stands."""
        self.read.append(what)
        for width in widths or by_profile((next(self._next)[1],), WIDTHS):
            self.page.set_viewport_size({"width": width, "height": 900})
            where = f"{what}, {language}, {width}"
            for scheme in ("light", "dark"):
                self._shows(where, scheme)
                if scheme == "light" or THOROUGH:
                    self._asks(where, scheme, by_profile(ALL_BUT_COLOUR, EVERYTHING))
                if not THOROUGH:
                    self._asks(where, scheme, {"runOnly": COLOUR}, colour=True)
            if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                self._fault(f"{where} scrolls sideways")
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})  # in which the tests go on

    def _shoot(self, where: str, scheme: str) -> None:
        name = re.sub(r"[^\w-]+", "_", f"{where}_{scheme}").strip("_")
        self.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)

    def _shows(self, where: str, scheme: Any) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.page.evaluate(SETTLED)
        if SHOTS:
            self._shoot(where, scheme)

    def _asks(self, where: str, scheme: str, options: dict[str, Any], *, colour: bool = False) -> None:
        """`colour`: about one of all elements that are painted alike."""
        asked = {"resultTypes": ["violations"], "preload": False, **options}
        for violation in self.page.evaluate(ASK, [colour, asked]):
            nodes = violation["nodes"]
            places = ", ".join(str(node["target"][0]) for node in nodes[:3])
            self._fault(f"{where}, {scheme}, {violation['id']} at {len(nodes)}: {places}. {nodes[0]['failureSummary']}")


@pytest.fixture
def reader(page: Page, live_server: Any, settings: Any) -> Reader:
    settings.ROOT_URLCONF = __name__
    return Reader(page, live_server.url)


def pages_of(name: str) -> list[str]:
    """The routes that answer this person's GET."""
    return [route for route in TABLE if expected(route, name, "GET") == 200]


@pytest.mark.parametrize(("name", "pages"), [("adela", 40), ("ana", 9), ("rui", 2)])
def test_axe_finds_nothing_where_there_is_much(reader: Reader, name: str, pages: int) -> None:
    world = World()
    reader.becomes(world[name])
    known = {"rui": ["evaluation/runs/", "generation/releases/"]}.get(name) or pages_of(name)
    reader.reads(*(address(route, world) for route in known))
    assert len(reader.read) >= pages, reader.read
    assert reader.faults == []


def test_axe_finds_nothing_in_cases_and_launches(reader: Reader) -> None:
    world = World()
    reader.becomes(world["adela"])
    sample = reverse("generation:sample", args=[world.sample_id])
    reader.reads(*(reverse("review:history", args=[case.pk]) for case in world.closed.values()), f"{sample}?beside=1")
    for held in world.held.values():  # the case page in every stage
        assert held.physician is not None
        reader.becomes(held.physician)
        reader.reads(reverse("review:case", args=[held.pk]), reverse("review:decline", args=[held.pk]))
    reader.becomes(world["bo"])  # a review to read again, with those of the others
    reader.reads(*(reverse("review:mine-detail", args=[review.pk]) for review in world["bo"].reviews.all()))
    reader.becomes(world["adela"])
    batch, run = world.paused_batch_id, world.paused_run_id
    reader.reads(reverse("generation:batch", args=[batch]), reverse("evaluation:run", args=[run]))
    page = reader.page
    page.goto(reader.url + reverse("evaluation:run-new"))
    page.get_by_role("button", name="Next step").click()
    page.get_by_role("group", name="Models to test").get_by_label("model-1").check(force=True)
    page.get_by_label("Judge", exact=True).select_option("judge")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").wait_for()
    reader.looks("the estimate of a run")
    page.goto(reader.url + reverse("generation:batch-new") + "?source=fresh")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label("Generator").select_option("model-1")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch batch").wait_for()
    reader.looks("the estimate of a batch")
    assert len(reader.read) > 24
    assert reader.faults == []


def test_axe_finds_nothing_where_there_is_nothing(reader: Reader) -> None:
    everybody = people()
    for name in ("adela", "ana", "rui"):
        reader.becomes(everybody[name])
        reader.reads(*(f"/{route}" for route in pages_of(name) if "<" not in route and "accounts" not in route))
    reader.becomes(None)
    reader.reads(*(f"/{route}" for route in PUBLIC if not django_admin(route)))
    assert len(reader.read) > 25, reader.read
    assert reader.faults == []


def test_axe_finds_nothing_where_something_is_wrong(reader: Reader) -> None:
    world = World()
    reader.becomes(world["ana"])
    reader.reads("/broken/", *(f"/{route}" for route in GONE if "<" not in route and "(" not in route))
    reader.reads(reverse("review:overview"), reverse("review:case", args=[world.held["secondary"].pk]))

    page = reader.page
    reader.reads(reverse("review:case", args=[world.held["primary"].pk]))
    page.keyboard.press("?")
    reader.looks("the keys")
    page.keyboard.press("Escape")
    with page.expect_response("**/draft/"):
        for key in ("e", "Escape", "i", "Escape", "c"):  # a row of evidence, a rubric of one's own, the changes
            page.keyboard.press(key)
    # Not wait_for_function: it evaluates a string on each poll, which the pages' CSP refuses.
    expect(page.locator(".htmx-request, .htmx-settling, .htmx-swapping")).to_have_count(0)
    page.locator("details.menu summary").click()
    reader.looks("open rows and an open menu")

    reader.becomes(world["kim"])
    page.goto(reader.url + reverse("review:case", args=[world.held["version-2"].pk]))
    page.keyboard.press("Control+Enter")
    page.locator("#incomplete").wait_for()
    reader.looks("a review that is not complete")
    page.locator("#answers").evaluate("form => form.submit()")  # as without a script
    page.locator("#problems").wait_for()
    reader.looks("a review that is sent back")

    reader.becomes(world["adela"])
    for form in ("review:person-new", "generation:endpoints"):
        page.goto(reader.url + reverse(form))
        page.evaluate(
            "form => { form.noValidate = true; form.requestSubmit() }", page.locator("main form").last.element_handle()
        )
        page.locator(".errorlist").first.wait_for()
        reader.looks(f"{form} that is sent back")
    assert reader.faults == []


def test_axe_finds_nothing_where_a_second_factor_is_set_up(reader: Reader) -> None:
    reader.becomes(people()["ana"])
    page = reader.page

    def goes_on(field: str, value: str) -> None:
        page.locator(f"main [name={field}]").fill(value)
        page.locator("main form .button").first.click()

    page.goto(reader.url + reverse("mfa_activate_totp"))
    reader.looks("the password once more")
    goes_on("password", PASSWORD)
    secret = page.locator("#secret").input_value()
    reader.looks("an app that is set up")
    goes_on("code", "000000")
    page.locator(".errorlist").wait_for()
    reader.looks("a wrong code")
    goes_on("code", code(secret))
    page.locator(".recovery").wait_for()
    reader.looks("the recovery codes")
    for door in ("mfa_index", "mfa_generate_recovery_codes", "mfa_deactivate_totp"):
        page.goto(reader.url + reverse(door))
        reader.looks(door)
    reader.becomes(None)
    page.goto(reader.url + reverse("account_login"))
    page.locator("[name=login]").fill("ana")
    goes_on("password", PASSWORD)
    page.wait_for_url("**" + reverse("mfa_authenticate"))
    reader.looks("a sign-in that asks for the code")
    assert reader.faults == []
