"""People at real browsers: each has a separate context (cookies) and uses only what the pages
offer."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Browser, Locator, Page, expect

from tests.processes import Site

ASSIGNMENT = re.compile(r"/review/assignments/(\w+)/")
PASSWORD = "a-long-password-for-tests"
# Appended to scripts that create accounts. Hashing takes a quarter of a second, so all share one
# hash.
SAME_PASSWORD = f"""
from django.contrib.auth.hashers import make_password
User.objects.update(password=make_password({PASSWORD!r}))
"""

expect.set_options(timeout=30_000)  # all processes of a site share the few cores


@dataclass
class Person:
    """A signed-in user in a browser."""

    page: Page
    site: Site
    name: str

    @classmethod
    def sign_in(cls, browser: Browser, site: Site, name: str) -> "Person":
        page = browser.new_context(base_url=site.url, viewport={"width": 1400, "height": 900}).new_page()
        page.set_default_timeout(30_000)
        page_errors: list[str] = []
        page.on("pageerror", lambda error: page_errors.append(str(error)))
        page.goto("/accounts/login/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "/accounts/login" not in url)
        assert not page_errors, page_errors
        return cls(page, site, name)

    def take_next(self) -> int:
        """Take the next case from the workbench; returns its number."""
        self.page.goto("/review/")
        self.page.get_by_role("button", name="Take next case").click()
        self.page.wait_for_url(ASSIGNMENT)
        return self._case_pk()

    def resume(self) -> int:
        """Resume what waits for this person, a discussion or a confirmation; returns the number of
        the case."""
        self.page.goto("/review/")
        self.page.get_by_role("link", name="Continue").first.click()
        self.page.wait_for_url(ASSIGNMENT)
        return self._case_pk()

    def _case_pk(self) -> int:
        match = ASSIGNMENT.search(self.page.url)
        assert match, self.page.url
        assignment = self.site.assignment_pk(match[1])
        return self.site.number(f"SELECT case_id FROM review_assignment WHERE id = {assignment}")

    def answer(self, verdict: str, reason: str = "") -> None:
        """Answer all questions and rubrics favourably and give this verdict, after the first look
        if there is one."""
        self.page.wait_for_load_state()  # a page that is still loading has only some of the questions
        form = self.page.locator("form#answers")
        reveal = self.page.get_by_role("button", name="Reveal traps")
        if reveal.count():
            self._choose_favourable(form)
            with self.page.expect_navigation():
                reveal.click()
        self._choose_favourable(form)
        source = form.locator('[name="citation.1.reference"]')
        if source.is_visible() and not source.input_value():
            traps = form.locator('[name="citation.1.trap"] option').evaluate_all("all => all.map((one) => one.value)")
            for number, trap in enumerate(list(filter(None, traps)) or [""], 1):
                if number > 1:
                    form.locator("#add-citation").click()
                if trap:
                    form.locator(f'[name="citation.{number}.trap"]').select_option(trap)
                form.locator(f'[name="citation.{number}.reference"]').click()
                form.locator(f'[name="citation.{number}.reference"]').fill("Guideline on headache, 2024")
                form.locator(f'[name="citation.{number}.section"]').fill("3.2")
                form.locator(f'[name="citation.{number}.passage"]').fill("No such drug is approved.")
        form.locator(f'[name="verdict"][value="{verdict}"]').check()
        reason_codes = form.locator('[name="reason_code"]')
        if verdict == "reject" and reason_codes.count():
            reason_codes.first.check()
        if reason:
            field = form.get_by_label("Reason", exact=True)
            field.click()  # the page moved there by itself, so that the field waits for a click or Enter
            field.fill(reason)

    def _choose_favourable(self, form: Locator) -> None:
        """Choose a favourable answer to every visible question and rubric."""
        if form.locator('[name="agreed"]').count():
            form.locator('[name="agreed"]').check()
        names = form.locator("input[type=radio]:visible").evaluate_all("radios => radios.map((radio) => radio.name)")
        for name in sorted({*names} - {"verdict", "reason_code"}):
            favourable = form.locator(
                ", ".join(
                    f'[name="{name}"][value="{value}"]'
                    for value in ("adequate", "moderate", "met", "no", "3", "yes", "supported", "right")
                )
            )
            favourable.first.check()

    def submit(self) -> None:
        """Submit without taking another case."""
        if self.page.locator("form[data-agreed]").count():
            self.page.wait_for_timeout(600)  # a submission within this time counts as a double click
        self.page.get_by_role("button", name="Submit and stop").click()

    def review(self, verdict: str, reason: str = "", *, inspect: Callable[[Page], None] = lambda _page: None) -> int:
        """Take the next case, `inspect` it, answer and submit; as secondary, keep the answer.
        Returns the case."""
        case = self.take_next()
        inspect(self.page)
        self.answer(verdict, reason)
        self.submit()
        keep = self.page.get_by_role("button", name="Keep my answer")
        home = self.page.get_by_role("heading", name="Workbench")
        discussion = self.page.get_by_text("The two votes differ")
        expect(keep.or_(home).or_(discussion).first).to_be_visible()
        if keep.is_visible():
            self.page.wait_for_timeout(600)
            with self.page.expect_navigation():  # during the navigation there is no form, whatever the next page is
                keep.click()  # also takes the next case, if one waits
            expect(keep).to_have_count(0)
            if self.page.locator("form#answers").count():
                self.return_to_queue()
        return case

    def return_to_queue(self) -> None:
        """Return the current case to the queue."""
        self.page.locator("summary", has_text="Return to queue").click()
        self.page.get_by_role("button", name="Return to queue").click()
        expect(self.page.get_by_role("heading", name="Workbench")).to_be_visible()
