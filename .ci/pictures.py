"""`make pictures`: the pictures of docs/, taken from a running demo (`make demo`)."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.servers import chromium  # noqa: E402

PASSWORD = "trap-or-truth"  # of the demo's accounts, as it prints it
PICTURES = {"run": "evaluation/runs/4/"}  # of mhb-demo@2


def main(site: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en")
        page.goto(f"{site}/accounts/login/")
        page.locator("[name=login]").fill("admin")
        page.locator("[name=password]").fill(PASSWORD)
        page.locator("[name=password]").press("Enter")
        page.wait_for_load_state("networkidle")
        for name, path in PICTURES.items():
            page.goto(f"{site}/{path}")
            page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
