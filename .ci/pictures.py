"""`make pictures`: the pictures of docs/, taken from a running demo (`make demo`)."""

import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.servers import chromium  # noqa: E402

PASSWORD = "trap-or-truth"  # of the demo's accounts, as it prints it


def case(page: Page) -> None:
    """A case of MHB after the first look, with its traps; it stays reserved for a while."""
    page.goto("/review/")
    resume = page.get_by_role("link", name="Continue")
    (resume if resume.count() else page.get_by_role("button", name="MHB, primary")).first.click()
    page.wait_for_url("**/assignments/**")
    if (reveal := page.get_by_role("button", name="Reveal traps")).count():
        radios = page.locator("form#answers input[type=radio]:visible")
        for name in sorted(set(radios.evaluate_all("all => all.map((one) => one.name)"))):
            page.locator(f'[name="{name}"]:is([value="3"], [value="no"])').first.check()
        reveal.click()
        reveal.wait_for(state="detached")


def at(path: str) -> Callable[[Page], None]:
    return lambda page: page.goto(path) and None


PICTURES: dict[str, tuple[str, Callable[[Page], None]]] = {  # file -> account, and the way there
    "workbench": ("fei", case),
    "run": ("rui", at("/evaluation/runs/4/")),  # of mhb-demo@2
    "system": ("admin", at("/system/")),
}


def main(site: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, (account, go) in PICTURES.items():
            size = {"width": 1280, "height": 800}
            page = browser.new_context(base_url=site, viewport=size, locale="en").new_page()
            page.goto("/accounts/login/")
            page.locator("[name=login]").fill(account)
            page.locator("[name=password]").fill(PASSWORD)
            page.locator("[name=password]").press("Enter")
            page.wait_for_load_state("networkidle")
            go(page)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
