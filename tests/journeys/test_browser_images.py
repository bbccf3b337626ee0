"""Questions about images in a real browser: import, traces, review with the viewer, release, run,
changes."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.people import SAME_PASSWORD, Person
from tests.processes import Site
from tests.profile import by_profile, public

pytestmark = [pytest.mark.browser, pytest.mark.processes]
ROWS = 3
PEOPLE = f"""
from review.models import User
for name in ("ana", "bo"):
    User.objects.create_user(name, role="physician")
User.objects.create_superuser("adela")
{SAME_PASSWORD}"""


def write_vqa_rad_zip(path: Path) -> Path:
    """Write a zip of the first rows of VQA-RAD's test set with their images, and a row whose image
    is missing."""
    folder = public("vqa_rad")
    rows = json.loads((folder / "testset.json").read_text(encoding="utf-8"))[:ROWS]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("testset.json", json.dumps([*rows, {**rows[0], "qid": 99_999, "image_name": "gone.jpg"}]))
        for name in {row["image_name"] for row in rows}:
            archive.write(folder / "images" / name, f"images/{name}")
    return path


def look_closely(page: Page) -> None:
    """Use the image viewer by keyboard: zoom, move, brightness, contrast, and reset."""
    frame = page.locator("[data-viewer-frame]").first
    picture = frame.locator("img")
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("image => image.naturalWidth") > 50, "the image was loaded"
    assert (picture.get_attribute("alt") or "").startswith("Image 1. It is about: ")
    frame.focus()
    for key in ("+", "+", "ArrowLeft", "]", "}"):
        page.keyboard.press(key)
    style = picture.get_attribute("style") or ""
    assert "scale(1.5625)" in style
    assert "translate(40px, 0px)" in style
    assert "brightness(110%) contrast(110%)" in style
    expect(page.locator("[data-viewer-zoom]").first).to_have_text("156 %")
    page.keyboard.press("0")
    assert "scale(1)" in (picture.get_attribute("style") or "")


def glance(page: Page) -> None:
    """Check only that an image is shown."""
    expect(page.locator("[data-viewer-frame] img").first).to_be_visible()


@pytest.mark.parametrize("site", by_profile(["embedded"], ["embedded", "production"]), indirect=True)
def test_questions_about_images_from_import_to_changes(site: Site, browser: Browser, tmp_path: Path) -> None:
    site.add_endpoints()
    result = site.manage("shell", "-v0", "-c", PEOPLE)
    assert result.returncode == 0, result.stderr
    site.start_worker()
    site.start_sweeper()
    site.start_web_for_browsers()
    adela = Person.sign_in(browser, site, "adela")
    page = adela.page

    # A source with images; a row without its image is refused with the file name
    page.goto("/generation/sources/")
    page.get_by_label("Format").select_option("vqa-rad")
    page.get_by_label("Source name").fill("rad")
    page.get_by_label("File", exact=True).set_input_files(write_vqa_rad_zip(tmp_path / "rad.zip"))
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/generation/sources/rad/")
    read = "SELECT status, added, refused FROM generation_import"
    site.wait_until("the import", lambda: site.sql(read) == [("done", ROWS, 1)])
    expect(page.get_by_text("gone.jpg").first).to_be_attached()  # the page updates itself
    site.start_models("--know", "rad")  # simulated vision models know the true answers about the images of this source

    # Reference traces, all of them for review
    page.goto("/generation/batches/new/?benchmark=clinhallu&source=rad")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label(re.compile("^Generator")).select_option("sim-generator")
    page.get_by_label("Judge: decides").select_option("sim-judge")
    page.locator('details:has([name="changes.name"]) > summary').click()
    page.locator('[name="changes.name"]').select_option("review_share")
    page.locator('[name="changes.value"]').fill("1.0")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_label("Call budget").fill("40")
    page.get_by_role("button", name="Launch batch").click()
    page.wait_for_url(re.compile(r"/generation/batches/\d+/"))
    site.wait_until("the batch", lambda: site.sql("SELECT status FROM generation_job") == [("finished",)])
    cases = site.number("SELECT count(*) FROM review_case WHERE state = 'primary'")
    assert cases

    # Two physicians inspect the images and agree
    people = [Person.sign_in(browser, site, name) for name in ("ana", "bo")]
    for person in people:
        for number in range(cases):
            person.review("approve", inspect=glance if number else look_closely)
    approved = "SELECT count(*) FROM generation_sample WHERE status = 'approved'"
    site.wait_until("the samples are approved", lambda: site.number(approved) == cases)

    # A release, a run with other counting rules, its report
    page.goto("/generation/releases/new/")
    page.get_by_label("Name", exact=True).fill("seen")
    page.get_by_role("button", name="Preview release").click()
    page.get_by_role("button", name="Freeze release").click()
    page.get_by_role("link", name="seen v1").click()
    page.wait_for_url("**/generation/releases/seen/1/")
    page.goto("/evaluation/runs/new/")
    page.get_by_role("button", name="Next step").click()
    page.get_by_role("group", name="Models to test").get_by_label("sim-reckless").check(force=True)
    page.get_by_role("group", name="Models to test").get_by_label("sim-average").check(force=True)
    page.get_by_label("Judge", exact=True).select_option("sim-judge")
    page.get_by_label("Counting rules").select_option("released")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").click()
    page.wait_for_url(re.compile(r"/evaluation/runs/\d+/"))
    site.wait_until(
        "the run", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)]
    )
    page.reload()
    page.locator("summary").filter(has=page.get_by_role("heading", name="Settings")).first.click()
    expect(page.get_by_text("Primary metric: Accuracy, valid traces only").first).to_be_visible()
    expect(page.get_by_text("Counting rules: As in the released code").first).to_be_visible()

    # Answers that the interventions fixed and broke: the chart, its files, and the answers beside
    # the reference
    page.locator("summary").filter(has=page.get_by_role("heading", name="effect of the variants")).first.click()
    page.get_by_role("link", name="Fixed and broken answers").first.click()
    page.wait_for_url(re.compile(r"/changes/"))
    expect(page.locator("svg .flow").first).to_be_visible()
    expect(page.get_by_role("columnheader", name="More than chance")).to_be_visible()
    with page.expect_download() as download:
        page.locator('a[href*="flow-0.csv"]').click()
    assert Path(download.value.path()).read_text("utf-8-sig").startswith("before,after,what,count\n")
    page.locator("svg a.mark").first.click()
    page.wait_for_url(re.compile(r"/changes/samples/"))
    expect(page.get_by_role("columnheader", name="Reference").first).to_be_visible()
    look_closely(page)
