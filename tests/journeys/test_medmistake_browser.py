"""MedMistake through the pages: patients, a batch, merges, review, both releases, an evaluation,
its report."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.benchmarks.medmistake.conversations import DOCTORS, ROLES, cases
from tests.journeys.people import SAME_PASSWORD, Person
from tests.processes import Site
from tests.profile import by_profile

pytestmark = [pytest.mark.browser, pytest.mark.processes]

CASES = by_profile(2, 10)  # with three doctors: 6 conversations, or 30
KINDS = by_profile(["production"], ["embedded", "production"])
APPROVE_REST = """
from review.models import User
from tests.review.approve import approve_everything
print(approve_everything(list(User.objects.filter(username__in=["ana", "bo"]).order_by("username"))))
"""


def start_everything(site: Site) -> None:
    site.start_models()
    names = sorted({*ROLES.values(), *DOCTORS})
    result = site.manage(
        "shell",
        "-v0",
        "-c",
        "from review.models import User\nfrom generation.endpoints.services import add_endpoint\n"
        f"for name in {names!r}:\n"
        f"    add_endpoint(name=name, url={site.models_url!r}, model=name, concurrency=4)\n"
        f"for name in ('ana', 'bo'):\n"
        "    User.objects.create_user(name, role='physician')\n"
        f"User.objects.create_superuser('adela')\n{SAME_PASSWORD}",
    )
    assert result.returncode == 0, result.stderr
    site.start_worker()
    site.start_sweeper()
    site.start_web_for_browsers()


class MistakeReviewer(Person):
    """A physician who finds every mistake and scenario valid."""

    def answer(self, verdict: str, reason: str = "") -> None:
        form = self.page.locator("form#answers")
        if not form.locator('[name="question.mistake"]:checked').count():
            expect(form.locator('[name="question.scenario"]').first).to_be_hidden()  # asked only for a valid mistake
        form.locator('[name="question.mistake"][value="valid"]').check()
        form.locator('[name="question.scenario"][value="valid"]').check()
        form.locator('[name="rubric.mistake"][value="adequate"]').check()
        form.locator('[name="rubric.mistake.severity"][value="high"]').check()
        form.locator(f'[name="verdict"][value="{verdict}"]').check()


def freeze_release(page: Page, name: str, *, with_unreviewed: bool) -> None:
    page.goto("/generation/releases/new/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Benchmark").select_option("medmistake")
    page.get_by_label("Configuration").select_option("replicated")
    if with_unreviewed:
        page.get_by_label("Include samples not sampled for review").check()
    page.get_by_role("button", name="Preview release").click()
    page.get_by_role("button", name="Freeze release").click()
    page.get_by_role("link", name=f"{name} v1").click()
    page.wait_for_url(f"**/generation/releases/{name}/1/")


@pytest.mark.parametrize("site", KINDS, indirect=True)
def test_conversations_become_a_measured_benchmark_through_the_pages(
    site: Site, browser: Browser, tmp_path: Path
) -> None:
    start_everything(site)
    page = Person.sign_in(browser, site, "adela").page
    path = tmp_path / "patients.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases(CASES)))
    page.goto("/generation/sources/")
    page.get_by_label("Format").select_option("medmistake-cases")
    page.get_by_label("Source name").fill("own")
    page.get_by_label("File", exact=True).set_input_files(path)
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/generation/sources/own/")
    site.wait_until("the import", lambda: site.sql("SELECT status, added FROM generation_import") == [("done", CASES)])

    page.goto("/generation/batches/new/?benchmark=medmistake&source=own")
    page.get_by_role("button", name="Next step").click()
    for role, name in ROLES.items():
        page.locator(f'[name="role-{role}"]').select_option(name)
    for name in DOCTORS:
        page.locator(f'[name="role-doctor"][value="{name}"]').check(force=True)
    page.locator('details:has([name="changes.name"]) > summary').click()
    page.locator('[name="changes.name"]').select_option("review_share")
    page.locator('[name="changes.value"]').fill("0.5")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_label("Call budget").fill("20000")
    page.get_by_role("button", name="Launch batch").dblclick()
    page.wait_for_url(re.compile(r"/generation/batches/\d+/"))
    batch = page.url
    site.wait_until(
        "the batch", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'batch'") == [("finished",)]
    )
    conversations = "SELECT count(*) FROM generation_draft WHERE parent_id IS NULL"
    assert site.number(conversations) == CASES * len(DOCTORS), "a double click launches one batch"

    # A merge is undone and repeated.
    page.goto(f"{batch}merges/")
    expect(page.get_by_text("distance").first).to_be_visible()
    merged = page.locator("details.panel").first
    if not merged.evaluate("details => details.open"):
        merged.locator("summary").first.click()
    number = re.findall(r"Draft (\d+)", merged.locator("summary").first.inner_text())[0]
    merged.locator("summary", has_text="Undo merge").click()
    merged.get_by_label("Reason").fill("Another case after all.")
    merged.get_by_role("button", name="Undo merge").dblclick()
    expect(page.get_by_text("Another case after all.").first).to_be_visible()
    assert site.number("SELECT count(*) FROM generation_mergeevent WHERE kind = 'undone'") == 1
    unfinished = "SELECT count(*) FROM generation_draft WHERE status IN ('queued', 'running')"
    site.wait_until("the separated draft is finished", lambda: site.number(unfinished) == 0)
    lead = site.number(
        "SELECT d.parent_id FROM generation_mergeevent e JOIN generation_draft d ON d.id = e.into_id "
        f"WHERE e.draft_id = {number} ORDER BY e.id LIMIT 1"
    )
    page.get_by_label("Keep draft").fill(str(lead))
    page.get_by_label("Merge into it").fill(number)
    page.locator("form#merge").get_by_label("Reason").fill("No, the same.")
    page.get_by_role("button", name="Merge drafts").click()
    expect(page.get_by_text("Drafts merged.")).to_be_visible()
    page.goto("/review/audit/?kind=merged")
    expect(page.get_by_text(f"draft {number}, now in draft").first).to_be_visible()

    # Two physicians judge a mistake and its scenario in the workbench; a script judges the other
    # cases.
    for name in ("ana", "bo"):
        MistakeReviewer.sign_in(browser, site, name).review("approve")
    rest = site.manage("shell", "-v0", "-c", APPROVE_REST)
    assert rest.returncode == 0, rest.stderr
    waiting = "SELECT count(*) FROM generation_sample WHERE status = 'in-review'"
    site.wait_until("all outcomes are applied", lambda: site.number(waiting) == 0)
    page.goto(batch)
    expect(page.get_by_text("Found valid by physicians")).to_be_visible()
    page.goto(f"{batch}costs/")
    expect(page.get_by_text("medmistake/doctor@").first).to_be_visible()

    freeze_release(page, "all", with_unreviewed=True)
    freeze_release(page, "bench", with_unreviewed=False)
    sizes = dict(site.sql("SELECT name, samples_count FROM generation_release"))
    assert sizes["all"] > sizes["bench"] > 0
    page.get_by_role("link", name="Evaluate models").click()
    page.get_by_role("button", name="Next step").click()
    for name in DOCTORS:
        page.get_by_role("group", name="Models to test").get_by_label(name).check(force=True)
    page.get_by_label("Judge", exact=True).select_option("sim-judge")
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").click()
    page.wait_for_url(re.compile(r"/evaluation/runs/\d+/"))
    site.wait_until(
        "the run", lambda: site.sql("SELECT status FROM generation_job WHERE kind = 'run'") == [("finished",)]
    )
    page.reload()
    expect(page.get_by_text("Models used to select the samples").first).to_be_visible()
    n_judgments = site.number("SELECT count(*) FROM evaluation_judgment WHERE status = 'done'")
    assert n_judgments == sizes["bench"] * len(DOCTORS)
    assert site.json("verify_audit")["intact"]
