"""The pages of a benchmark without a judge in a browser.

They pass axe, and the launch form has the fields of the chosen release.
"""

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from evaluation.models import Run
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.models import Release
from review.models import User
from tests.conftest import RunConcurrently
from tests.engine import endpoint
from tests.evaluation.toy import SEED, claimants, toy, toy_release
from tests.site.test_every_page import Reader, reader

__all__ = ["claimants", "reader", "toy"]

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("toy", "transactional_db")]


def test_report_answers_and_launch_form_work_without_a_judge(
    reader: Reader, claimants: str, adela: User, run_concurrently: RunConcurrently
) -> None:
    release = toy_release(24)
    models = [endpoint(claimants, name) for name in ("sim-careful", "sim-average")]
    run = services.launch_run(RunSettings(release=release, endpoints=models, seed=SEED))
    run_concurrently(
        [lambda: work.work_on_run(run.pk)]
    )  # in another thread: this one runs the event loop of the browser
    reader.sign_in_as(adela)
    report, answers, launch = (
        reverse("evaluation:run", args=[run.pk]),
        reverse("evaluation:judgments", args=[run.pk]),
        reverse("evaluation:run-new"),
    )
    reader.visit(report, f"{answers}?verdict=unparsed", f"{launch}?release={release.pk}", reverse("evaluation:runs"))
    reader.visit(reverse("evaluation:calls", args=[run.pk, run.judgments.all()[0].pk]))
    page: Any = reader.page
    page.goto(f"{reader.url}{report}?sort=-rate")
    page.get_by_role("combobox", name="Metric").select_option("accuracy")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**rate=accuracy*")
    assert "sort=-rate" in page.url
    reader.check_page("another rate")
    page.set_viewport_size({"width": 1366, "height": 768})
    page.evaluate("scrollTo(0, 0)")
    sentences, chart = (part.bounding_box() for part in page.locator(".answer-and-chart > *").all())
    assert sentences["y"] == chart["y"], "the first chart stands beside the answer"
    assert chart["y"] + chart["height"] <= 768, "and ends within the first screen"
    for bar in page.locator(".answer-and-chart .hbars__bar, .charts--bars .hbars__bar").all():
        assert bar.bounding_box()["width"] > 300, "a bar keeps most of the width of its card"

    page.goto(f"{reader.url}{launch}?release={release.pk}")
    expect(page.get_by_label("Judge", exact=True)).to_have_count(0)
    page.get_by_label("Release").select_option(str(Release.objects.get(name="bare").pk))
    page.get_by_label("Judge", exact=True).wait_for(state="attached")
    expect(page.get_by_label("Seed")).to_have_count(0)
    page.get_by_label("Release").select_option(str(release.pk))
    page.locator("details:has([name=seed]) > summary").click()
    page.get_by_label("Seed").fill("3")
    expect(page.get_by_label("Judge", exact=True)).to_have_count(0)
    page.get_by_role("checkbox", name="With a hint", exact=True).check(force=True)
    page.get_by_role("button", name="Next step").click()
    page.get_by_role("checkbox", name="sim-average").check(force=True)
    page.get_by_role("button", name="Show estimate").click()
    page.get_by_role("button", name="Launch run").click()
    page.wait_for_url("**/runs/*/")
    launched = Run.objects.latest("pk")
    assert (launched.judge, launched.seed, launched.variants) == (None, 3, ["hinted"])
    assert reader.faults == []


# Chooses another release at the moment when htmx swaps in the fields of the previous choice. The
# estimate beside the form is swapped as well, and does not count.
CHOOSE_DURING_SWAP = """value => {
    document.addEventListener("htmx:afterSwap", function choose(event) {
        if (event.detail.target.id !== "launch") return;
        document.removeEventListener("htmx:afterSwap", choose);
        const release = document.querySelector("#id_release");
        release.value = value;
        release.dispatchEvent(new Event("change", { bubbles: true }));
    });
}"""


def expect_fields_of(page: Any, release: Release, *, judged: bool) -> None:
    """Expect the form to show the fields of this release, and of no other."""
    expect(page.get_by_label("Judge", exact=True)).to_have_count(int(judged))
    expect(page.get_by_label("Seed")).to_have_count(int(not judged))
    expect(page.get_by_label("Release")).to_have_value(str(release.pk))


def test_the_form_has_the_fields_of_the_release_chosen_last(reader: Reader, claimants: str, adela: User) -> None:
    release = toy_release(2)
    endpoint(claimants, "sim-careful")
    bare = Release.objects.get(name="bare")
    reader.sign_in_as(adela)
    page: Any = reader.page
    page.goto(f"{reader.url}{reverse('evaluation:run-new')}?release={release.pk}")

    # Choose again when the response to the first choice has arrived and htmx has not settled yet.
    page.evaluate(CHOOSE_DURING_SWAP, str(release.pk))
    page.get_by_label("Release").select_option(str(bare.pk))
    expect_fields_of(page, release, judged=False)
    expect(page.locator(".htmx-request, .htmx-settling, .htmx-swapping")).to_have_count(0)
    expect_fields_of(page, release, judged=False)

    # Choose again while the first response is delayed, so that it arrives after the second.
    delayed: list[Any] = []
    page.route(f"**/runs/new/?release={bare.pk}", lambda route: delayed.append(route))
    with page.expect_request(f"**/runs/new/?release={bare.pk}"):
        page.get_by_label("Release").select_option(str(bare.pk))
    page.get_by_label("Release").select_option(str(release.pk))
    expect(page.locator(".htmx-request, .htmx-settling, .htmx-swapping")).to_have_count(0)
    delayed[0].continue_()
    page.unroute_all(behavior="wait")
    expect_fields_of(page, release, judged=False)
    page.get_by_label("Release").select_option(str(bare.pk))
    expect_fields_of(page, bare, judged=True)
