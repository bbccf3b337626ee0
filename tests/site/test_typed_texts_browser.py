"""Text typed and not sent survives reload, Back and a sign-in, on every page with a form."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.conf import settings
from django.urls import reverse
from knox.models import AuthToken
from playwright.sync_api import Page, expect

from review.discussion.guidelines import write_guideline
from review.models import User
from review.rules.state_machine import State
from tests.browser import sign_in
from tests.review.factories import PASSWORD, account, claim, open_case
from tests.site.routes import address
from tests.site.test_permissions import TABLE, expected
from tests.site.world import World

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

# Texts of a review, a remark and the forms beside a case are kept for longer, by other scripts.
FIELDS_JS = """() => [...document.querySelectorAll("main form[method='post'] :is(input, textarea)")].filter((field) =>
    field.matches("textarea, [type='text'], [type='url'], [type='email'], [type='number']") && !field.readOnly
    && !field.form.matches("[data-answers], [data-remark], [data-aside]"))"""
TYPE_JS = f"""() => ({FIELDS_JS})().map((field, number) => {{
    field.value = field.type === "number" ? 7 + number : `typed ${{number}}`;
    field.dispatchEvent(new Event("input", {{ bubbles: true }}));
    return `${{field.name}}: ${{field.value}}`;
}})"""
READ_JS = f"() => ({FIELDS_JS})().map((field) => `${{field.name}}: ${{field.value}}`)"


def pages_with_forms(page: Page, url: str, addresses: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """The fields of each page as they were filled in, and as they are after a reload."""
    result: dict[str, tuple[list[str], list[str]]] = {}
    for location in addresses:
        page.goto(url + location)
        typed = page.evaluate(TYPE_JS)
        if not typed:
            continue
        page.reload()
        page.wait_for_load_state("networkidle")
        result[location] = (typed, page.evaluate(READ_JS))
    return result


@pytest.mark.parametrize(("name", "least"), [("adela", 15), ("ana", 2)])
def test_a_reload_loses_nothing_typed(page: Page, live_server: Any, name: str, least: int) -> None:
    world = World()
    sign_in(page, live_server.url, world[name])
    routes = [route for route in TABLE if expected(route, name, "GET") == 200]
    is_page = {"Accept": "text/html"}
    pages = []
    for route in routes:
        location = address(route, world)
        response = page.request.get(live_server.url + location, headers=is_page)
        if "text/html" in response.headers.get("content-type", "") and 'method="post"' in response.text():
            pages.append(location)
    found = pages_with_forms(page, live_server.url, pages)
    lost = {location: (typed, read) for location, (typed, read) in found.items() if typed != read}
    assert not lost, lost
    assert len(found) >= least, list(found)


def test_rows_refusals_and_signing_in_again_keep_what_was_typed(page: Page, live_server: Any, adela: User) -> None:
    new = live_server.url + reverse("review:person-new")
    sign_in(page, live_server.url, adela)
    page.goto(new)
    name = page.locator("[name=username]")
    name.fill("not a name")
    page.locator("main form button.button--primary").click()
    expect(page.locator(".errorlist").first).to_be_visible()
    page.reload()  # of the refused form: its page opens again
    expect(name).to_have_value("not a name")

    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    name.fill("kept.name")
    page.locator("main form button.button--primary").click()  # leads to the sign-in page
    page.locator("[name=login]").fill(adela.username)
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url(new)
    expect(name).to_have_value("kept.name")

    page.goto(new)  # opened anew, a form is empty
    expect(name).to_have_value("")


def test_a_refused_form_is_filled_in_again_and_a_sent_one_leaves_the_others(
    page: Page, live_server: Any, adela: User, bo: User
) -> None:
    too_long = "Why not? " * 300
    sign_in(page, live_server.url, adela)
    open_case()
    review = claim(bo)
    history = live_server.url + reverse("review:history", args=[review.case_id])
    page.goto(history)
    specialty, language = page.locator("#specialty"), page.locator("#language")
    withdrawal = page.locator("[name=reason]")
    withdrawal.fill("Not yet decided.")
    page.evaluate("document.querySelector('[name=specialty]').maxLength = 5000")
    specialty.fill(too_long)
    page.get_by_role("button", name="Change specialty").click()
    expect(page.locator(".message--error")).to_be_visible()
    expect(specialty).to_have_value(too_long)
    expect(withdrawal).to_have_value("Not yet decided.")
    expect(page.get_by_text(too_long)).to_have_count(0)  # the message is for those without scripts

    specialty.fill("cardiology")
    language.fill("zh")
    page.get_by_role("button", name="Change specialty").click()
    expect(page.locator(".message--success")).to_be_visible()
    expect(specialty).to_have_value("cardiology")
    expect(language).to_have_value("zh")
    expect(withdrawal).to_have_value("Not yet decided.")

    page.goto(live_server.url + reverse("review:cases"))
    page.goto(history)  # opened anew
    expect(withdrawal).to_have_value("")


def test_a_reload_makes_no_second_token(page: Page, live_server: Any, ana: User) -> None:
    sign_in(page, live_server.url, ana)
    page.goto(live_server.url + reverse("tokens"))
    page.locator("[name=password]").fill(PASSWORD)  # to confirm who it is
    page.locator("[name=password]").press("Enter")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_text("Copy the token now")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Create token")).to_be_visible()
    expect(page.get_by_text("Copy the token now")).to_have_count(0)
    assert AuthToken.objects.count() == 1


def test_texts_of_a_form_leave_with_another_account(page: Page, live_server: Any, adela: User, ana: User) -> None:
    sign_in(page, live_server.url, adela)
    page.goto(live_server.url + reverse("review:person-new"))
    page.locator("[name=username]").fill("kept.name")
    page.goto(live_server.url + reverse("review:people"))
    assert page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('mhb-draft:typed:')).length") == 1
    sign_in(page, live_server.url, ana)
    page.goto(live_server.url + reverse("review:workbench"))
    assert page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('mhb-draft:typed:')).length") == 0


def test_a_sign_in_at_a_provider_keeps_what_was_typed_and_drops_what_another_typed(
    page: Page, live_server: Any, adela: User, chen: User
) -> None:
    """The browser comes back from another site, whose address says nothing of a sign-in."""
    new = live_server.url + reverse("review:person-new")
    User.objects.filter(pk=chen.pk).update(role=adela.role)
    name = page.locator("[name=username]")
    for person, kept in ((adela, "kept.name"), (chen, "")):
        sign_in(page, live_server.url, adela)
        page.goto(new)
        name.fill("kept.name")
        page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
        page.locator("main form button.button--primary").click()  # leads to the sign-in page
        page.wait_for_url(f"{live_server.url}{reverse('account_login')}**")
        page.goto("about:blank")
        sign_in(page, live_server.url, person)
        page.goto(new)
        expect(name).to_have_value(kept)


def test_what_was_typed_goes_back_to_its_own_row_and_over_nothing_new(
    page: Page, live_server: Any, adela: User, bo: User
) -> None:
    """Somebody else published another guideline, and added an account at the top of the list."""
    sign_in(page, live_server.url, adela)
    page.goto(live_server.url + reverse("review:guideline-edit", args=["mhb", "primary"]))
    page.locator("[name=text]").fill("Mine.")
    write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text="The other's.")
    page.reload()
    expect(page.locator("[name=text]")).to_have_value("The other's.")

    page.goto(live_server.url + reverse("review:people"))
    page.locator(f"[name=rows][value='{bo.pk}']").check()
    account("aaron")
    page.reload()
    expect(page.locator("[name=rows]:checked")).to_have_count(1)
    expect(page.locator(f"[name=rows][value='{bo.pk}']")).to_be_checked()
