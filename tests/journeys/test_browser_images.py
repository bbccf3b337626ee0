"""Questions about images in a real browser: import, traces, two physicians with the viewer, release, run, what was fixed."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.people import SAME_PASSWORD, Person
from tests.processes import Site
from tests.profile import far
from tests.public import public

pytestmark = [pytest.mark.browser, pytest.mark.processes]
ROWS = 3
PEOPLE = f"""
from review.models import User
for name in ("ana", "bo"):
    User.objects.create_user(name, role="physician")
User.objects.create_superuser("adela")
{SAME_PASSWORD}"""


def rad(path: Path) -> Path:
    """The first rows of VQA-RAD's test set with their images, and one whose image is missing, as a zip."""
    folder = public("vqa_rad")
    rows = json.loads((folder / "testset.json").read_text(encoding="utf-8"))[:ROWS]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("testset.json", json.dumps([*rows, {**rows[0], "qid": 99_999, "image_name": "gone.jpg"}]))
        for name in {row["image_name"] for row in rows}:
            archive.write(folder / "images" / name, f"images/{name}")
    return path


def look_closely(page: Page) -> None:
    """The image by keyboard alone: zoom, move, brightness, contrast, and back."""
    frame = page.locator("[data-viewer-frame]").first
    picture = frame.locator("img")
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("image => image.naturalWidth") > 50, "it is really shown"
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
    """Nothing but that there is an image."""
    expect(page.locator("[data-viewer-frame] img").first).to_be_visible()


@pytest.mark.parametrize("site", far(["embedded"], ["embedded", "production"]), indirect=True)
def test_questions_about_images_the_whole_way(site: Site, browser: Browser, tmp_path: Path) -> None:
    site.add_endpoints()
    done = site.manage("shell", "-v0", "-c", PEOPLE)
    assert done.returncode == 0, done.stderr
    site.start_worker()
    site.start_sweeper()
    site.start_web_for_browsers()
    adela = Person.signs_in(browser, site, "adela")
    page = adela.page

    # A source with images; one row has none and is refused by name
    page.goto("/generation/sources/")
    page.get_by_label("Format").select_option("vqa-rad")
    page.get_by_label("Source name").fill("rad")
    page.get_by_label("File", exact=True).set_input_files(rad(tmp_path / "rad.zip"))
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/generation/sources/rad/")
    read = "SELECT status, added, refused FROM generation_import"
    site.until("the import", lambda: site.sql(read) == [("done", ROWS, 1)])
    expect(page.get_by_text("gone.jpg").first).to_be_attached()  # the page follows by itself
    site.start_models("--know", "rad")  # simulated models that see know what is true of the images of a source

    # Reference traces, all of them for review
    page.goto("/generation/batches/new/?benchmark=clinhallu&source=rad")
    page.get_by_role("button", name="Next step").click()
    page.get_by_label("Generator").select_option("sim-generator")
    page.get_by_label("Judge: checks").select_option("sim-judge")
    page.get_by_label("Overrides").fill('{"review_share": 1.0}')
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_label("Call budget").fill("40")
    page.get_by_role("button", name="Launch batch").click()
    page.wait_for_url(re.compile(r"/generation/batches/\d+/"))
    site.until("the batch", lambda: site.sql("SELECT status FROM generation_job") == [("finished",)])
    cases = site.number("SELECT count(*) FROM review_case WHERE state = 'primary'")
    assert cases

    # Two physicians look at the images and agree
    people = [Person.signs_in(browser, site, name) for name in ("ana", "bo")]
    for person in people:
        for number in range(cases):
            person.reviews("approve", looks=glance if number else look_closely)
    approved = "SELECT count(*) FROM generation_sample WHERE status = 'approved'"
    site.until("the samples are approved", lambda: site.number(approved) == cases)

    # A release, a run with another counting, its report
    page.goto("/generation/releases/")
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
    site.until("the run", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)])
    page.reload()
    expect(page.get_by_text("Primary metric: Accuracy, valid traces only").first).to_be_visible()
    expect(page.get_by_text("Counting rules: As in the released code").first).to_be_visible()

    # What the interventions fixed and broke: the flow, its files, and the answers beside the reference
    page.get_by_role("link", name="Fixed and broken answers").first.click()
    page.wait_for_url(re.compile(r"/changes/"))
    expect(page.locator("svg .flow").first).to_be_visible()
    expect(page.get_by_role("columnheader", name="More than chance")).to_be_visible()
    with page.expect_download() as download:
        page.locator('a[href*="flow-0.csv"]').click()
    assert Path(download.value.path()).read_text().startswith("before,after,what,count\n")
    page.locator("svg a.mark").first.click()
    page.wait_for_url(re.compile(r"/changes/samples/"))
    expect(page.get_by_role("columnheader", name="Reference").first).to_be_visible()
    look_closely(page)
