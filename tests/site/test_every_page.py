"""axe checks every HTML page, with much on it and with nothing on it.

The pages come from the routes. The thorough profile checks every page completely: in the light and
the dark colour scheme, in both languages, at three widths. A push checks each page in one language
and at one width, which take turns. It checks colours in both schemes, but of elements that are
painted alike only one, because axe spends most of its time on contrast.

With MHB_SHOTS=<folder> (`make screenshots`) a picture of each page is saved as well.
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
from tests.site.routes import address, is_django_admin
from tests.site.test_permissions import GONE, PUBLIC, TABLE, expected
from tests.site.test_second_factor import code
from tests.site.world import World, people

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]


def broken(request: Any) -> HttpResponse:
    raise RuntimeError("a page that breaks")


def no_update(request: HttpRequest) -> HttpResponseBase:
    """Answer a page that polls for progress with no content.

    axe could not judge the colours of elements that are replaced while it runs.
    """
    if "HX-Request" in request.headers:
        return HttpResponse(status=204)
    request.resolver_match = match = resolve(request.path, "mhb_site.urls")
    response: HttpResponseBase = match.func(request, **match.kwargs)
    return response


urlpatterns = [
    re_path(r".*/(?:progress|imports|check)/$", no_update),
    *real_urlpatterns,
    path("broken/", broken),
]


LANGUAGES, WIDTHS = ("en", "zh-hans"), (1440, 1024, 420)
VARIANTS = [(language, width) for width in WIDTHS for language in LANGUAGES]
SHOTS = os.environ.get("MHB_SHOTS", "")
EVERYTHING = {"rules": {"target-size": {"enabled": True}}}  # off by default in axe
COLOUR = ("color-contrast", "link-in-text-block")
ALL_BUT_COLOUR = {"rules": {**EVERYTHING["rules"], **{rule: {"enabled": False} for rule in COLOUR}}}


# Scroll to the top, where the sticky page head covers nothing that axe checks, and finish all
# colour transitions. A transition that ends on one element may begin on those that inherit from it,
# so repeat. getAnimations() computes the styles: no need to wait for a frame to be painted.
SETTLE = """() => {
    scrollTo(0, 0);
    let moving;
    do {
        moving = document.getAnimations().filter(animation => animation instanceof CSSTransition);
        for (const transition of moving) transition.finish();
    } while (moving.length);
}"""


# Choose one element with text of each look, which is its colours, its size, what lies behind it
# and, for a link, the text around it. Looks checked on an earlier page are left out. Elements
# placed over others or drawn in a chart may have anything behind them, so all of those are chosen;
# elements that stick to the top are not: at the top of a page they cover nothing.
ELEMENTS_BY_LOOK = """() => {
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
RUN_AXE = f"""async ([colour, options]) => {{
    const context = colour ? {{include: ({ELEMENTS_BY_LOOK})()}} : document;
    if (colour && !context.include.length) return [];
    return (await axe.run(context, options)).violations;
}}"""


class Reader:
    """A reader who visits pages as one user after another.

    `faults` collects what axe and the console report.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.visited: list[str] = []
        self.faults: list[str] = []
        self._client = Client(raise_request_exception=False)
        self._variants = cycle(VARIANTS)
        page.add_init_script(AXE_SCRIPT)
        page.on("pageerror", lambda error: self._add_fault(str(error)))
        page.on("console", lambda line: self._add_fault(line.text) if "Content Security" in line.text else None)

    def _add_fault(self, description: str) -> None:
        self.faults.append(f"{self.page.url.removeprefix(self.url)}: {description}")

    def sign_in_as(self, person: User | None) -> None:
        """Sign in as another user, or sign out."""
        self.page.context.clear_cookies()
        self._client = Client(raise_request_exception=False)
        if person is not None:
            self._client.force_login(person)
            session = self._client.cookies[settings.SESSION_COOKIE_NAME].value
            self.page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": self.url}])

    def visit(self, *addresses: str) -> None:
        """Check those addresses that are complete pages: no fragments, downloads or redirects."""
        for location in addresses:
            response: Any = self._client.get(location)
            if b"<html" in b"".join(response)[:200]:
                for language, widths in self._next_variants():
                    self._set_language(language)
                    self.page.goto(self.url + location)
                    if self.page.locator("#swagger-ui").count():  # filled by a script
                        self.page.locator(".opblock-tag").first.click()
                        self.page.locator(".opblock-summary-control").first.click()
                        self.page.locator(".opblock-body").wait_for()
                    self.check_page(location, widths, language)
        self._set_language("en")  # the tests look for English labels

    def _next_variants(self) -> Sequence[tuple[str, Sequence[int]]]:
        """Return the languages in which to check the next page, each with its widths."""
        language, width = next(self._variants)
        one: list[tuple[str, Sequence[int]]] = [(language, (width,))]
        return by_profile(one, [(language, WIDTHS) for language in LANGUAGES])

    def _set_language(self, language: str) -> None:
        self.page.context.add_cookies([{"name": settings.LANGUAGE_COOKIE_NAME, "value": language, "url": self.url}])

    def check_page(self, name: str, widths: Sequence[int] = (), language: str = "en") -> None:
        """Check the page in its present state, at these widths or the next one in turn."""
        self.visited.append(name)
        for width in widths or by_profile((next(self._variants)[1],), WIDTHS):
            self.page.set_viewport_size({"width": width, "height": 900})
            variant = f"{name}, {language}, {width}"
            for scheme in ("light", "dark"):
                self._set_colour_scheme(variant, scheme)
                if scheme == "light" or THOROUGH:
                    self._run_axe(variant, scheme, by_profile(ALL_BUT_COLOUR, EVERYTHING))
                if not THOROUGH:
                    self._run_axe(variant, scheme, {"runOnly": COLOUR}, colour=True)
            if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                self._add_fault(f"{variant} scrolls sideways")
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})  # the tests continue at this size

    def _save_screenshot(self, variant: str, scheme: str) -> None:
        name = re.sub(r"[^\w-]+", "_", f"{variant}_{scheme}").strip("_")
        self.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)

    def _set_colour_scheme(self, variant: str, scheme: Any) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.page.evaluate(SETTLE)
        if SHOTS:
            self._save_screenshot(variant, scheme)

    def _run_axe(self, variant: str, scheme: str, options: dict[str, Any], *, colour: bool = False) -> None:
        """Add axe's violations as faults. With `colour`, check one of each set painted alike."""
        options = {"resultTypes": ["violations"], "preload": False, **options}
        for violation in self.page.evaluate(RUN_AXE, [colour, options]):
            nodes = violation["nodes"]
            places = ", ".join(str(node["target"][0]) for node in nodes[:3])
            self._add_fault(
                f"{variant}, {scheme}, {violation['id']} at {len(nodes)}: {places}. {nodes[0]['failureSummary']}"
            )


@pytest.fixture
def reader(page: Page, live_server: Any, settings: Any) -> Reader:
    settings.ROOT_URLCONF = __name__
    return Reader(page, live_server.url)


def pages_of(name: str) -> list[str]:
    """Return the routes that answer a GET of this person with a page."""
    return [route for route in TABLE if expected(route, name, "GET") == 200]


@pytest.mark.parametrize(("name", "pages"), [("adela", 40), ("ana", 9), ("rui", 2)])
def test_axe_finds_nothing_on_a_full_site(reader: Reader, name: str, pages: int) -> None:
    world = World()
    reader.sign_in_as(world[name])
    visited = {"rui": ["evaluation/runs/", "generation/releases/"]}.get(name) or pages_of(name)
    reader.visit(*(address(route, world) for route in visited))
    assert len(reader.visited) >= pages, reader.visited
    assert reader.faults == []


def test_axe_finds_nothing_in_cases_and_launches(reader: Reader) -> None:
    world = World()
    reader.sign_in_as(world["adela"])
    sample = reverse("generation:sample", args=[world.sample_id])
    reader.visit(*(reverse("review:history", args=[case.pk]) for case in world.closed.values()), f"{sample}?beside=1")
    for held in world.held.values():  # the case page in each stage
        assert held.physician is not None
        reader.sign_in_as(held.physician)
        reader.visit(reverse("review:case", args=[held.pk]), reverse("review:decline", args=[held.pk]))
    reader.sign_in_as(world["bo"])  # reads his own reviews again, with those of the others
    reader.visit(*(reverse("review:mine-detail", args=[review.pk]) for review in world["bo"].reviews.all()))
    reader.sign_in_as(world["adela"])
    batch, run = world.paused_batch_id, world.paused_run_id
    reader.visit(reverse("generation:batch", args=[batch]), reverse("evaluation:run", args=[run]))
    page = reader.page
    page.goto(reader.url + reverse("evaluation:run-new"))
    page.get_by_role("button", name="Next step").click()
    page.get_by_role("group", name="Models to test").get_by_label("model-1").check(force=True)
    page.get_by_label("Judge", exact=True).select_option("judge")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").wait_for()
    reader.check_page("the estimate of a run")
    page.goto(reader.url + reverse("generation:batch-new") + "?source=fresh")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label(re.compile("^Generator")).select_option("model-1")
    page.locator("[name=role-examiner]").select_option("model-2")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch batch").wait_for()
    reader.check_page("the estimate of a batch")
    assert len(reader.visited) > 24
    assert reader.faults == []


def test_axe_finds_nothing_on_an_empty_site(reader: Reader) -> None:
    users = people()
    for name in ("adela", "ana", "rui"):
        reader.sign_in_as(users[name])
        reader.visit(*(f"/{route}" for route in pages_of(name) if "<" not in route and "accounts" not in route))
    reader.sign_in_as(None)
    reader.visit(*(f"/{route}" for route in PUBLIC if not is_django_admin(route)))
    assert len(reader.visited) > 25, reader.visited
    assert reader.faults == []


def test_axe_finds_nothing_on_pages_with_errors(reader: Reader) -> None:
    world = World()
    reader.sign_in_as(world["ana"])
    reader.visit("/broken/", *(f"/{route}" for route in GONE if "<" not in route and "(" not in route))
    reader.visit(reverse("review:overview"), reverse("review:case", args=[world.held["secondary"].pk]))

    page = reader.page
    reader.visit(reverse("review:case", args=[world.held["primary"].pk]))
    page.keyboard.press("?")
    reader.check_page("the keys")
    page.keyboard.press("Escape")
    with page.expect_response("**/draft/"):
        for key in ("e", "Escape", "i", "Escape", "c"):  # add evidence, add a rubric, show the changes
            page.keyboard.press(key)
    # Not wait_for_function: it evaluates a string on each poll, which the CSP refuses.
    expect(page.locator(".htmx-request, .htmx-settling, .htmx-swapping")).to_have_count(0)
    page.locator("details.menu summary").click()
    reader.check_page("open rows and an open menu")

    reader.sign_in_as(world["kim"])
    page.goto(reader.url + reverse("review:case", args=[world.held["version-2"].pk]))
    page.keyboard.press("Control+Enter")
    page.locator("#incomplete").wait_for()
    reader.check_page("an incomplete review")
    page.locator("#answers").evaluate("form => form.submit()")  # as without scripts
    page.locator("#problems").wait_for()
    reader.check_page("a refused review")

    reader.sign_in_as(world["adela"])
    for form in ("review:person-new", "generation:endpoint-new"):
        page.goto(reader.url + reverse(form))
        page.evaluate(
            "form => { form.noValidate = true; form.requestSubmit() }", page.locator("main form").last.element_handle()
        )
        page.locator(".errorlist").first.wait_for()
        reader.check_page(f"{form}, refused")
    assert reader.faults == []


def test_axe_finds_nothing_while_a_second_factor_is_set_up(reader: Reader) -> None:
    reader.sign_in_as(people()["ana"])
    page = reader.page

    def submit(field: str, value: str) -> None:
        page.locator(f"main [name={field}]").fill(value)
        page.locator("main form .button").first.click()

    page.goto(reader.url + reverse("mfa_activate_totp"))
    reader.check_page("the password asked for again")
    submit("password", PASSWORD)
    secret = page.locator("#secret").input_value()
    reader.check_page("setting up an app")
    submit("code", "000000")
    page.locator(".errorlist").wait_for()
    reader.check_page("a wrong code")
    submit("code", code(secret))
    page.locator(".recovery").wait_for()
    reader.check_page("the recovery codes")
    for name in ("mfa_index", "mfa_generate_recovery_codes", "mfa_deactivate_totp"):
        page.goto(reader.url + reverse(name))
        reader.check_page(name)
    reader.sign_in_as(None)
    page.goto(reader.url + reverse("account_login"))
    page.locator("[name=login]").fill("ana")
    submit("password", PASSWORD)
    page.wait_for_url("**" + reverse("mfa_authenticate"))
    reader.check_page("a sign-in that asks for the code")
    assert reader.faults == []
