"""The frame of every page: its rail by role, error pages, design tokens and keyboard shortcuts."""

import re
from itertools import product
from pathlib import Path

import pytest
from django.conf import settings
from django.http import Http404
from django.template.loader import render_to_string
from django.test import Client, RequestFactory, override_settings
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from generation.models import Source, SourceRecord
from mhb_site import views
from mhb_site.templatetags import frame
from mhb_site.urls import urlpatterns as real_urlpatterns
from review.models import User
from review.rules.permissions import Can
from tests.engine import endpoint

ROOT = Path(settings.BASE_DIR)
CSS = ROOT / "static" / "mhb" / "css"


def person(role):
    return User(username=role, role=role)


def signed_in(role):
    user = User.objects.create_user(role, password="reading-room-1", role=role)
    client = Client()
    client.force_login(user)
    return client


# The rail


@pytest.fixture(autouse=True)
def uncached_rail():
    """Rails of other addresses are neither found nor left behind."""
    for cached in (frame._hrefs, frame._rail):
        cached.cache_clear()
    yield
    for cached in (frame._hrefs, frame._rail):
        cached.cache_clear()


@pytest.fixture
def every_page(monkeypatch):
    """Give every page of the rail an address, whether its app is installed or not."""
    addresses = {place.name: f"/{place.name.replace(':', '/')}/" for group in frame.RAIL for place in group.places}
    monkeypatch.setattr(frame, "reverse", addresses.__getitem__)
    return addresses


def rail_labels(user, path="/"):
    return [str(link.label) for _, links in frame.groups_for(user, path) for link in links]


@pytest.mark.usefixtures("every_page")
def test_each_role_has_its_own_rail():
    assert rail_labels(person("physician")) == ["Workbench", "My reviews", "Guidelines"]
    assert rail_labels(person("researcher")) == ["Releases", "Runs", "Prompts", "API"]
    assert rail_labels(person("admin")) == [
        *("Overview", "Sources", "Batches", "Cases", "Review forms", "Physicians", "Audit", "Agreement"),
        *("Releases", "Runs", "Endpoints", "Prompts", "Playground", "API", "System"),
    ]
    assert rail_labels(None) == []


def test_shortcut_letters_are_unique():
    keys = [place.key for group in frame.RAIL for place in group.places]
    assert len(keys) == len(set(keys))
    assert "g" not in keys


def test_the_rail_marks_the_page_or_its_parent(every_page):
    every_page["review:overview"] = "/review/"
    every_page["review:cases"] = "/review/cases/"
    admin = person("admin")

    def current(path):
        links = [link for _, group in frame.groups_for(admin, path) for link in group]
        return [(str(link.label), link.current) for link in links if link.current]

    assert current("/review/") == [("Overview", "page")]
    assert current("/review/cases/") == [("Cases", "page")]
    assert current("/review/cases/142/") == [("Cases", "true")]
    assert current("/elsewhere/") == []


def test_a_place_whose_page_is_missing_is_left_out(monkeypatch):
    group = frame.NavigationGroup(
        "", (frame.NavigationPlace("no:such-page", gettext_lazy("Nowhere"), "x", Can.REVIEW),)
    )
    monkeypatch.setattr(frame, "RAIL", (group,))
    assert frame.groups_for(person("physician"), "/") == ()


# Pages


def test_no_two_landmarks_of_a_template_have_the_same_name():
    """A table that scrolls is a region: the section around it does not take its name, too."""
    landmark = r'<(?:section|aside|nav|form|\w+[^>]* role="region")[^>]* aria-labelledby="([^"]+)"'
    for template in sorted((ROOT / "templates").rglob("*.html")):
        names = re.findall(landmark, template.read_text())
        assert len(names) == len({*names}), template


@pytest.mark.django_db
def test_a_page_keeps_to_the_content_security_policy():
    response = signed_in("admin").get(reverse("styleguide"))
    html = response.content.decode()
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert not re.search(r"\sstyle\s*=|<style|\son[a-z]+\s*=", html)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html))
    assert '"includeIndicatorStyles":false' in html  # otherwise htmx adds a <style>, which the policy refuses
    assert "Simulated models: not evidence" in html


@pytest.mark.django_db
@pytest.mark.parametrize("role", ["physician", "researcher"])
def test_physicians_and_researchers_cannot_see_the_style_guide(role):
    request = RequestFactory().get("/styleguide/")
    request.user = person(role)
    with pytest.raises(Http404):
        views.styleguide(request)


@pytest.mark.django_db
def test_signing_in_and_out_with_plain_forms():
    User.objects.create_user("ruth", password="reading-room-1", role="physician")
    client = Client()
    page = client.get(reverse("account_login")).content.decode()
    assert 'class="rail"' not in page
    assert reverse("account_signup") not in page
    wrong = client.post(reverse("account_login"), {"login": "ruth", "password": "guess"}).content.decode()
    assert "errorlist" in wrong
    response = client.post(reverse("account_login"), {"login": "ruth", "password": "reading-room-1"}, follow=True)
    assert response.redirect_chain[-1][0] == reverse("review:workbench"), "a physician's day begins at the workbench"
    assert client.post(reverse("account_logout"), follow=True).redirect_chain


@pytest.mark.django_db
def test_pages_of_allauth_use_our_frame():
    for name in ("account_signup", "account_inactive"):
        html = Client().get(reverse(name)).content.decode()
        assert 'id="main"' in html
        assert "tokens.css" in html


def broken(request):
    raise RuntimeError("a page that breaks")


urlpatterns = [*real_urlpatterns, path("broken/", broken)]


@pytest.mark.django_db
@override_settings(ROOT_URLCONF=__name__, DEBUG=False)
def test_error_pages():
    client = signed_in("physician")
    client.raise_request_exception = False
    missing, down = client.get("/nowhere/"), client.get("/broken/")
    assert (missing.status_code, down.status_code) == (404, 500)
    for response in (missing, down):
        assert "data-problem" in response.content.decode()  # the element that app.js takes out of a response to htmx
    assert "RuntimeError" not in down.content.decode()
    assert Client(enforce_csrf_checks=True).post("/accounts/login/", {}).status_code == 403


def test_the_page_of_a_problem_contains_its_fragment(rf):
    context = {"message": "Too <late>.", "detail": "The draft is kept."}
    fragment = render_to_string("site/_problem.html", context)
    page = render_to_string("site/problem.html", context, request=rf.get("/"))
    assert "Too &lt;late&gt;." in fragment
    assert fragment.strip() in page


def test_labels_of_states():
    assert str(frame.state_label("adjudication")) == "adjudication"
    assert frame.state_label("unheard-of") == "unheard-of"
    assert 'class="badge badge--failed"' in render_to_string("components/badge.html", {"state": "failed"})


# Tokens


def tokens():
    """Return the values of the light theme, and those of both definitions of the dark theme."""
    text = (CSS / "tokens.css").read_text()
    light = text.split("@media", 1)[0]
    by_system = text.split('not([data-theme="light"])', 1)[1].split(':root[data-theme="dark"]', 1)[0]
    by_switch = text.split(':root[data-theme="dark"]', 1)[1]
    return tuple(dict(re.findall(r"(--[\w-]+): ([^;]+);", part)) for part in (light, by_system, by_switch))


def contrast(one, other):
    """WCAG 2 contrast ratio of two #rrggbb colours."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_both_definitions_of_the_dark_theme_agree():
    _, by_system, by_switch = tokens()
    assert by_system == by_switch


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_contrasts_with_its_background(theme):
    values = tokens()[theme]
    backgrounds = ("page", "surface", "sunken")
    pairs = [(ink, background) for ink in ("ink", "ink-2", "accent", "removed") for background in backgrounds]
    pairs += [(meaning, f"{meaning}-soft") for meaning in ("added", "removed", "warning", "trap")]
    pairs += [("accent-strong", "accent-soft"), ("on-accent", "accent"), ("on-accent", "accent-strong")]
    pairs += [("ink", "trap-soft"), ("ink", "warning-soft"), ("ink", "accent-soft"), ("ink-2", "accent-soft")]
    pairs += [("heat-ink-low" if step < 5 else "heat-ink-high", f"heat-{step}") for step in range(10)]
    ratios = {pair: contrast(values[f"--{pair[0]}"], values[f"--{pair[1]}"]) for pair in pairs}
    assert {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < 4.5} == {}
    marks = {f"--series-{i}": contrast(values[f"--series-{i}"], values["--surface"]) for i in range(8)}
    assert {name: round(ratio, 2) for name, ratio in marks.items() if ratio < 3} == {}


@pytest.mark.parametrize("sheet", sorted(path.name for path in CSS.glob("*.css") if path.name != "tokens.css"))
def test_style_sheets_use_only_colours_of_the_tokens(sheet):
    text = re.sub(r"/\*.*?\*/", "", (CSS / sheet).read_text(), flags=re.S)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgb\(|\bhsl\(|\boklch\(", text) == []
    known = {*tokens()[0], *re.findall(r"(--[\w-]+)\s*:", text)}
    assert sorted({name for name in re.findall(r"var\((--[\w-]+)", text) if name not in known}) == []


# In a browser


@pytest.fixture
def style_guide(transactional_db, live_server, page):
    violations = []
    page.on("console", lambda m: violations.append(m.text) if "Content Security Policy" in m.text else None)
    page.on("pageerror", lambda error: violations.append(str(error)))
    client = signed_in("admin")
    name = settings.SESSION_COOKIE_NAME
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
    page.goto(live_server.url + reverse("styleguide"))
    yield page
    assert violations == []


@pytest.mark.browser
def test_axe_finds_nothing(style_guide):
    from axe_playwright_python.sync_playwright import Axe

    page = style_guide
    for width, scheme in product((1440, 390), ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        results = Axe().run(page)
        assert results.violations_count == 0, (width, scheme, results.generate_report())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # the page never scrolls sideways


@pytest.mark.browser
def test_theme_keys_and_menu(style_guide):
    page = style_guide
    theme = page.locator("[data-theme-switch]")
    theme.click()
    theme.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert (
        page.evaluate("document.documentElement.dataset.theme") == "dark"
    )  # remembered, and set before the first paint
    page.keyboard.press("?")
    keys = page.locator("#keys")
    assert keys.is_visible()
    assert "Next response" in keys.inner_text()
    inside_dialog = page.evaluate(  # press the key before the frame in which the closed dialog loses the focus
        """() => {
            document.querySelector("#keys").close();
            const focused = document.activeElement;
            focused.dispatchEvent(new KeyboardEvent("keydown", {key: "1", bubbles: true}));
            return !!focused.closest("#keys");
        }"""
    )
    assert inside_dialog
    assert page.locator("#q1-1").is_checked() or page.locator("input[name=natural][value='1']").is_checked()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    assert keys.is_hidden()
    page.keyboard.press("3")
    assert page.locator("#q1-3").is_checked() or page.locator("input[name=natural][value='3']").is_checked()
    page.locator("input[name=q]").press("?")
    assert keys.is_hidden()  # a question mark typed into a field opens no dialog
    page.locator("details.menu summary").click()
    assert page.get_by_role("button", name="Sign out").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="Sign out").is_hidden()


@pytest.mark.browser
def test_a_refused_form_focuses_its_first_wrong_field(style_guide):
    page = style_guide
    page.goto(page.url.replace(reverse("styleguide"), reverse("generation:endpoint-new")))
    settings = page.locator("main details.panel", has=page.locator("[name='extra_body.field']"))
    settings.locator("summary").first.click()
    fields = {"name": "big", "url": "http://127.0.0.1:9/v1", "model": "m"}
    fields |= {"extra_body.field": "messages", "extra_body.value": "1"}
    for name, value in fields.items():
        page.fill(f"main [name='{name}']", value)
    page.click("main button:has-text('Add endpoint')")
    page.locator("main [name='extra_body.field']:focus").wait_for()


@pytest.mark.browser
def test_the_selects_of_a_batch_launch_are_wide_enough(style_guide):
    endpoint("http://models.example/v1", "one")
    Source.objects.create(name="own", format="healthbench", created_at=timezone.now())
    page = style_guide
    page.goto(page.url.replace(reverse("styleguide"), reverse("generation:batch-new")))
    measure_widths = (
        "select => { const now = select.offsetWidth; select.style.width = 'auto'; return [now, select.offsetWidth]; }"
    )
    width, needed = page.locator("[data-step-first] select").first.evaluate(measure_widths)
    assert width >= needed


@pytest.mark.browser
def test_enter_in_a_launch_step_leads_to_the_next_step_and_its_required_fields(style_guide):
    endpoint("http://models.example/v1", "one")
    source = Source.objects.create(name="own", format="healthbench", created_at=timezone.now())
    SourceRecord.objects.create(source=source, external_id="1", title="A dose", content={"kind": "dialogue"})
    page = style_guide
    page.goto(page.url.replace(reverse("styleguide"), reverse("generation:batch-new")) + "?benchmark=mhb&source=own")
    page.locator("[name=limit]").press("Enter")
    page.locator("legend:focus", has_text="Models").wait_for()
    page.get_by_role("button", name="Show estimate").click()
    page.locator("[name=role-generator]:focus").wait_for()
    assert page.url.endswith("source=own"), "nothing is sent while the generator is missing"


@pytest.mark.browser
def test_g_and_a_letter_open_a_page_but_not_during_text_composition(style_guide):
    page = style_guide
    page.evaluate(
        """() => {
          const link = document.createElement("a");
          link.href = "#went";
          link.dataset.go = "z";
          document.querySelector(".rail").append(link);
        }"""
    )
    compose = (
        "key => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, isComposing: true, bubbles: true}))"
    )
    page.evaluate(compose, "g")
    page.keyboard.press("z")
    assert not page.url.endswith("#went")
    page.keyboard.press("g")
    page.keyboard.press("z")
    assert page.url.endswith("#went")


@pytest.mark.browser
def test_errors_and_a_lost_network_are_shown_among_the_messages(style_guide):
    page = style_guide
    problem = render_to_string(
        "site/_problem.html", {"message": "Somebody else has taken this case over.", "detail": ""}
    )
    page.route("**/late", lambda route: route.fulfill(status=409, body=problem, content_type="text/html"))
    page.route("**/odd", lambda route: route.fulfill(status=502, body="<h1>proxy</h1>", content_type="text/html"))
    page.route("**/gone", lambda route: route.abort())
    assert page.evaluate("Boolean(window.htmx)")  # deferred scripts have run when goto returns

    def request(path):
        page.evaluate("path => htmx.ajax('GET', path, {target: '#browser', swap: 'outerHTML'}).catch(() => {})", path)

    request("/late")
    page.locator("#messages .problem", has_text="taken this case over").wait_for()
    request("/odd")
    page.locator("#messages .problem", has_text="(502)").wait_for()
    assert page.locator("#messages .problem").count() == 1
    assert page.locator("#browser").count() == 1  # the page itself is unchanged
    request("/gone")
    page.locator("#network-lost").wait_for()


@pytest.mark.browser
def test_print_shows_what_is_folded_and_no_buttons(style_guide):
    page = style_guide
    folded = page.locator("details.panel:not([open]) > .panel__body").first
    button = page.locator("main .button").first
    assert (folded.is_visible(), button.is_visible()) == (False, True)
    page.emulate_media(media="print")
    assert (folded.is_visible(), button.is_visible()) == (True, False)


@pytest.mark.browser
def test_a_success_fades_at_the_next_action_after_it_could_be_read_and_an_error_stays(style_guide):
    page = style_guide
    page.clock.install(time=0)
    page.clock.pause_at(3600)  # from here on, the page's clock moves as the test says
    page.reload()
    page.evaluate("""() => document.querySelector("#messages").innerHTML =
        `<p class="message message--success">done</p><p class="message message--error">failed</p>`""")
    page.keyboard.press("Shift")
    page.clock.run_for(1000)
    assert page.locator("#messages .message").all_inner_texts() == ["done", "failed"]
    page.clock.run_for(4000)
    page.keyboard.press("Shift")
    page.clock.run_for(1000)
    assert page.locator("#messages .message").all_inner_texts() == ["failed"]


@pytest.mark.browser
def test_phones_fold_the_filters_of_a_list_and_wider_screens_show_them(style_guide):
    page = style_guide
    page.goto(page.url.replace(reverse("styleguide"), reverse("review:cases")))
    field = page.locator(".filters [name=text]")
    summary = page.locator(".filters-fold > summary")
    assert (field.is_visible(), summary.is_visible()) == (True, False)
    page.set_viewport_size({"width": 360, "height": 740})
    assert (field.is_visible(), summary.is_visible()) == (False, True)
    summary.click()
    field.fill("fever")
    field.press("Enter")
    page.wait_for_url("**text=fever**")
    assert field.is_visible(), "the filters in use are open"


@pytest.mark.browser
def test_the_head_of_a_page_fits_a_phone_with_unread_notifications(style_guide):
    page = style_guide
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate("""() => document.querySelector(".topbar__name").insertAdjacentHTML(
        "afterend", `<span class="badge badge--count">1,000</span>`)""")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".topbar__name").bounding_box()["width"] > 0


@pytest.mark.browser
def test_a_long_name_in_the_breadcrumb_leaves_room_for_the_short_ones(style_guide):
    page = style_guide
    page.set_viewport_size({"width": 1366, "height": 768})
    page.evaluate("""() => document.querySelector(".trail ol").innerHTML =
        `<li>Sources</li><li>${"A long title of a record. ".repeat(9)}</li><li>Archive or delete</li>`""")
    cut = page.evaluate(
        "[...document.querySelectorAll('.trail li')].map(crumb => crumb.scrollWidth > crumb.clientWidth)"
    )
    assert cut == [False, True, False]
