"""The main workflow in a real browser, from a source file to the rates of a run.

A push runs it on PostgreSQL with Redis, as customers do; the thorough tests run it embedded, too.
"""

import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.people import SAME_PASSWORD, Person
from tests.journeys.test_kill import conversations
from tests.processes import Site
from tests.profile import by_profile

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHYSICIANS = ("ana", "bo", "chen", "dina", "emil", "fei")


def start_everything(site: Site) -> None:
    """Start all processes; create the endpoints, an admin and six physicians."""
    site.start_models()
    site.add_endpoints()
    accounts = "".join(f"User.objects.create_user({name!r}, role='physician')\n" for name in PHYSICIANS)
    script = f"from review.models import User\n{accounts}User.objects.create_superuser('adela')\n{SAME_PASSWORD}"
    result = site.manage("shell", "-v0", "-c", script)
    assert result.returncode == 0, result.stderr
    site.start_worker()
    site.start_sweeper()
    site.start_web_for_browsers()


def figure_of_first_trap(page: Page) -> None:
    """Open the funnel by trap and download the figure of its first trap, by keyboard only."""
    page.reload()  # a page that updates itself would close it again
    page.locator("summary", has_text="By trap").focus()
    page.keyboard.press("Enter")
    first = page.locator("a[href*='funnel.svg?trap=']").first
    expect(first).to_be_visible()
    page.keyboard.press("Tab")  # the table, which scrolls
    page.keyboard.press("Tab")
    expect(first).to_be_focused()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    figure = Path(download.value.path()).read_text()
    assert "Records drawn" in figure
    assert first.locator(".visually-hidden").inner_text().strip() in figure


# Prints the first request about the draft of version 2.
FIRST_REQUEST = """
from generation.models import Call, Draft
draft = Draft.objects.get(version=2)
print(Call.objects.filter(subject=f"draft:{draft.pk}").earliest("pk").sent)
"""


@pytest.mark.parametrize("site", by_profile(["production"], ["embedded", "production"]), indirect=True)
def test_the_main_workflow(site: Site, browser: Browser, tmp_path: Path) -> None:
    start_everything(site)
    adela = Person.sign_in(browser, site, "adela")
    page = adela.page

    # A source
    page.goto("/generation/sources/")
    page.get_by_label("Format").select_option("healthbench")
    page.get_by_label("Source name").fill("own")
    page.get_by_label("File", exact=True).set_input_files(conversations(tmp_path / "own.jsonl", 2))
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/generation/sources/own/")
    site.wait_until("the import", lambda: site.sql("SELECT status, added FROM generation_import") == [("done", 2)])

    # A batch
    page.goto("/generation/batches/new/")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label(re.compile("^Generator")).select_option("sim-generator")
    page.locator("[name=role-examiner]").select_option("sim-examiner")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_label("Call budget").fill("20")  # regenerations of rejected samples exceed the estimate
    page.get_by_role("button", name="Launch batch").click()
    page.wait_for_url(re.compile(r"/generation/batches/\d+/"))
    expect(page.get_by_text("finished").first).to_be_visible()  # the page updates itself
    assert site.number("SELECT count(*) FROM review_case") == 2

    figure_of_first_trap(page)

    # Two physicians disagree on the first case, and two agree on the second, which comes before the
    # adjudication for people without finished cases
    people = {name: Person.sign_in(browser, site, name) for name in PHYSICIANS}
    disputed = people["ana"].review("approve")
    assert people["bo"].review("reject", "The bait gives itself away.") == disputed
    state = f"SELECT state, ground FROM review_case WHERE id = {disputed}"
    assert site.sql(state) == [("adjudication", "")]
    agreed = people["emil"].review("approve")
    assert agreed != disputed
    assert people["fei"].review("approve") == agreed

    # Two adjudicators first disagree and then, with both votes open, agree
    assert people["chen"].review("reject", "I agree: too obvious.") == disputed
    assert people["dina"].review("approve") == disputed
    assert site.sql(state) == [("adjudication", "")]
    expect(people["dina"].page.get_by_text("I agree: too obvious.").first).to_be_visible()
    people["dina"].answer("reject", "On reflection the bait is too obvious.")
    people["dina"].submit()
    assert people["chen"].resume() == disputed
    people["chen"].answer("reject", "Still too obvious.")
    people["chen"].submit()
    site.wait_until("the case is rejected", lambda: site.sql(state) == [("rejected", "adjudicated")])

    # The rejected sample comes back as version 2, with the reasons in the generator's prompt
    second = "SELECT c.id FROM review_case c WHERE c.version = 2"
    site.wait_until("version 2", lambda: len(site.sql(second)) == 1)
    shown = site.manage("shell", "-v0", "-c", FIRST_REQUEST)
    assert "On reflection the bait is too obvious." in shown.stdout, shown.stderr
    for name in ("emil", "fei"):  # they have not seen version 1
        people[name].review("approve")
    approved = "SELECT count(*) FROM generation_sample WHERE status = 'approved'"
    site.wait_until("both samples are approved", lambda: site.number(approved) == 2)

    # The history shows all reasons
    page.goto(f"/review/cases/{disputed}/")
    for reason in ("The bait gives itself away.", "On reflection the bait is too obvious."):
        expect(page.get_by_text(reason).first).to_be_visible()

    # A release, and its export
    page.goto("/generation/releases/new/")
    page.get_by_label("Name", exact=True).fill("first")
    page.get_by_role("button", name="Preview release").click()
    page.get_by_role("button", name="Freeze release").click()
    page.get_by_role("link", name="first v1").click()  # the list updates itself when the worker has frozen it
    page.wait_for_url("**/generation/releases/first/1/")
    figure_of_first_trap(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON Lines", exact=True).click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert {"samples.jsonl", "DATACARD.md", "manifest.json", "SHA256SUMS"} <= {
            Path(name).name for name in archive.namelist()
        }

    # An evaluation, its rates, and the answers behind a number
    page.goto("/evaluation/runs/new/")
    page.get_by_role("button", name="Next step").click()
    for name in ("sim-careful", "sim-reckless"):
        page.get_by_role("group", name="Models to test").get_by_label(name).check(force=True)
    page.get_by_label("Judge", exact=True).select_option("sim-judge")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").click()
    page.wait_for_url(re.compile(r"/evaluation/runs/\d+/"))
    site.wait_until(
        "the run", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)]
    )
    page.reload()
    expect(page.get_by_text("Simulated models: not evidence").first).to_be_visible()
    expect(page.locator("main .hbars").first).to_be_visible()
    page.locator('a[href*="/judgments/"]').first.click()
    page.wait_for_url(re.compile(r"/judgments/"))
    expect(page.get_by_text("Explanation by sim-judge").first).to_be_visible()
    rubrics = site.number("SELECT count(*) FROM generation_releasedrubric")
    assert site.number("SELECT count(*) FROM evaluation_judgment WHERE status = 'done'") == 2 * rubrics
