"""The main job in a real browser, from the file to the rates.

A push does it on PostgreSQL with Redis, as customers run it; the thorough tests do it embedded, too.
"""

import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.people import SAME_PASSWORD, Person
from tests.journeys.test_kill import conversations
from tests.processes import Site
from tests.profile import far

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHYSICIANS = ("ana", "bo", "chen", "dina", "emil", "fei")


def start_everything(site: Site) -> None:
    """All processes, the endpoints, and one account of each kind and six physicians."""
    site.start_models()
    site.add_endpoints()
    accounts = "".join(f"User.objects.create_user({name!r}, role='physician')\n" for name in PHYSICIANS)
    script = f"from review.models import User\n{accounts}User.objects.create_superuser('adela')\n{SAME_PASSWORD}"
    done = site.manage("shell", "-v0", "-c", script)
    assert done.returncode == 0, done.stderr
    site.start_worker()
    site.start_sweeper()
    site.start_web_for_browsers()


@pytest.mark.parametrize("site", far(["production"], ["embedded", "production"]), indirect=True)
def test_the_main_job(site: Site, browser: Browser, tmp_path: Path) -> None:
    start_everything(site)
    adela = Person.signs_in(browser, site, "adela")
    page = adela.page

    # A source
    page.goto("/generation/sources/")
    page.get_by_label("Format").select_option("healthbench")
    page.get_by_label("Source name").fill("own")
    page.get_by_label("File", exact=True).set_input_files(conversations(tmp_path / "own.jsonl", 2))
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/generation/sources/own/")
    site.until("the import", lambda: site.sql("SELECT status, added FROM generation_import") == [("done", 2)])

    # A batch
    page.goto("/generation/batches/new/")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label("Generator").select_option("sim-generator")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_label("Call budget").fill("20")  # what physicians send back is made again, beyond the estimate
    page.get_by_role("button", name="Launch batch").click()
    page.wait_for_url(re.compile(r"/generation/batches/\d+/"))
    expect(page.get_by_text("finished").first).to_be_visible()  # the page follows by itself
    assert site.number("SELECT count(*) FROM review_case") == 2

    # Two physicians dissent on the first case, and agree on the second
    people = {name: Person.signs_in(browser, site, name) for name in PHYSICIANS}
    disputed = people["ana"].reviews("approve")
    assert people["bo"].reviews("reject", "The bait gives itself away.") == disputed
    state = f"SELECT state, ground FROM review_case WHERE id = {disputed}"
    assert site.sql(state) == [("adjudication", "")]

    # Two adjudicate: first they differ, then, with both votes open, they agree
    assert people["chen"].reviews("reject", "I agree: too obvious.") == disputed
    assert people["dina"].reviews("approve") == disputed
    assert site.sql(state) == [("adjudication", "")]
    expect(people["dina"].page.get_by_text("I agree: too obvious.").first).to_be_visible()
    people["dina"].answers("reject", "On reflection the bait is too obvious.")
    people["dina"].submits()
    assert people["chen"].resumes() == disputed
    people["chen"].answers("reject", "Still too obvious.")
    people["chen"].submits()
    site.until("the case is rejected", lambda: site.sql(state) == [("rejected", "adjudicated")])

    # What was rejected comes back as version 2, with the reasons in the generator's prompt
    second = "SELECT c.id FROM review_case c WHERE c.version = 2"
    site.until("version 2", lambda: len(site.sql(second)) == 1)
    [[sent]] = site.sql(
        "SELECT CAST(sent AS TEXT) FROM generation_call WHERE subject = "
        "(SELECT 'draft:' || CAST(id AS TEXT) FROM generation_draft WHERE version = 2) ORDER BY id LIMIT 1"
    )
    assert "On reflection the bait is too obvious." in sent
    for _ in range(2):  # the other case and version 2, each by fresh eyes
        people["emil"].reviews("approve")
        people["fei"].reviews("approve")
    approved = "SELECT count(*) FROM generation_sample WHERE status = 'approved'"
    site.until("both samples are approved", lambda: site.number(approved) == 2)

    # The history says all of it
    page.goto(f"/review/cases/{disputed}/")
    for said in ("The bait gives itself away.", "On reflection the bait is too obvious."):
        expect(page.get_by_text(said).first).to_be_visible()

    # A release, and its export
    page.goto("/generation/releases/")
    page.get_by_label("Name", exact=True).fill("first")
    page.get_by_role("button", name="Preview release").click()
    page.get_by_role("button", name="Freeze release").click()
    page.get_by_role("link", name="first v1").click()  # there once the worker has frozen it: the list follows by itself
    page.wait_for_url("**/generation/releases/first/1/")
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
    site.until("the run", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)])
    page.reload()
    expect(page.get_by_text("Simulated models: not evidence").first).to_be_visible()
    expect(page.locator("main .hbars").first).to_be_visible()
    page.locator('a[href*="/judgments/"]').first.click()
    page.wait_for_url(re.compile(r"/judgments/"))
    expect(page.get_by_text("Explanation by sim-judge").first).to_be_visible()
    rubrics = site.number("SELECT count(*) FROM generation_releasedrubric")
    assert site.number("SELECT count(*) FROM evaluation_judgment WHERE status = 'done'") == 2 * rubrics
