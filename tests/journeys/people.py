"""People at real browsers: each has a context (cookies) of their own and does what the pages offer, nothing else."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Browser, Locator, Page, expect

from tests.processes import Site

ASSIGNMENT = re.compile(r"/review/assignments/(\w+)/")
PASSWORD = "a-long-password-for-tests"
# The end of a script that makes accounts without one. A hash takes a quarter of a second: everybody gets the same.
SAME_PASSWORD = f"""
from django.contrib.auth.hashers import make_password
User.objects.update(password=make_password({PASSWORD!r}))
"""

expect.set_options(timeout=30_000)  # the processes of a whole site share what cores there are


@dataclass
class Person:
    """Somebody signed in."""

    page: Page
    site: Site
    name: str

    @classmethod
    def signs_in(cls, browser: Browser, site: Site, name: str) -> "Person":
        page = browser.new_context(base_url=site.url, viewport={"width": 1400, "height": 900}).new_page()
        page.set_default_timeout(30_000)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto("/accounts/login/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "/accounts/login" not in url)
        assert not faults, faults
        return cls(page, site, name)

    def takes_next(self) -> int:
        """The next case from the workbench; returns its number."""
        self.page.goto("/review/")
        self.page.get_by_role("button", name="Take next case").click()
        self.page.wait_for_url(ASSIGNMENT)
        return self._case()

    def resumes(self) -> int:
        """What waits for this person alone: a discussion, a confirmation."""
        self.page.goto("/review/")
        self.page.get_by_role("link", name="Continue").first.click()
        self.page.wait_for_url(ASSIGNMENT)
        return self._case()

    def _case(self) -> int:
        found = ASSIGNMENT.search(self.page.url)
        assert found, self.page.url
        assignment = self.site.assignment(found[1])
        return self.site.number(f"SELECT case_id FROM review_assignment WHERE id = {assignment}")

    def answers(self, verdict: str, reason: str = "") -> None:
        """Finds nothing wrong with the criteria and rubrics, and concludes as told; looks first where that is asked."""
        self.page.wait_for_load_state()  # of a page half read only some of what is asked would be there
        form = self.page.locator("form#answers")
        reveal = self.page.get_by_role("button", name="Reveal traps")
        if reveal.count():
            self._chooses(form)
            with self.page.expect_navigation():
                reveal.click()
        self._chooses(form)
        source = form.locator('[name="citation.1.reference"]')
        if source.is_visible() and not source.input_value():
            form.locator('[name="citation.1.reference"]').fill("Guideline on headache, 2024")
            form.locator('[name="citation.1.section"]').fill("3.2")
            form.locator('[name="citation.1.passage"]').fill("No such drug is approved.")
        form.locator(f'[name="verdict"][value="{verdict}"]').check()
        coded = form.locator('[name="reason_code"]')
        if verdict == "reject" and coded.count():
            coded.first.check()
        if reason:
            form.get_by_label("Reason", exact=True).fill(reason)

    def _chooses(self, form: Locator) -> None:
        """An answer in favour to every question and rubric that is asked."""
        if form.locator('[name="agreed"]').count():
            form.locator('[name="agreed"]').check()
        asked = form.locator("input[type=radio]:visible").evaluate_all("radios => radios.map((radio) => radio.name)")
        for name in sorted({*asked} - {"verdict", "reason_code"}):
            favoured = form.locator(
                ", ".join(
                    f'[name="{name}"][value="{value}"]'
                    for value in ("adequate", "moderate", "met", "no", "3", "yes", "supported", "right")
                )
            )
            favoured.first.check()

    def submits(self) -> None:
        """Submits without taking another case."""
        if self.page.locator("form[data-agreed]").count():
            self.page.wait_for_timeout(600)  # what comes sooner is taken for the second press of a double click
        self.page.get_by_role("button", name="Submit and stop").click()

    def reviews(self, verdict: str, reason: str = "", *, looks: Callable[[Page], None] = lambda _page: None) -> int:
        """Takes the next case, `looks` at it, answers and submits; as secondary, keeps the answer in the end."""
        case = self.takes_next()
        looks(self.page)
        self.answers(verdict, reason)
        self.submits()
        keep = self.page.get_by_role("button", name="Keep my answer")
        home = self.page.get_by_role("heading", name="Workbench")
        discussion = self.page.get_by_text("The two votes differ")
        expect(keep.or_(home).or_(discussion).first).to_be_visible()
        if keep.is_visible():
            with self.page.expect_navigation():  # while the page changes there is no form, whatever comes
                keep.click()  # keeps, and takes the next case where one waits
            expect(keep).to_have_count(0)
            if self.page.locator("form#answers").count():
                self.gives_back()
        return case

    def gives_back(self) -> None:
        """Gives the case in hand back untouched."""
        self.page.locator("summary", has_text="Return to queue").click()
        self.page.get_by_role("button", name="Return to queue").click()
        expect(self.page.get_by_role("heading", name="Workbench")).to_be_visible()
