"""The pictures of the README: `python docs/pictures.py` starts a Muster of its own, talks to it, and looks.

Needs Chromium and the development requirements.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.live import Live  # noqa: E402

EXAMPLE = '''def loan_payment(principal: float, yearly_rate: float, years: int) -> dict:
    """What a loan costs a month."""
    months = years * 12
    rate = yearly_rate / 100 / 12
    payment = principal / months if rate == 0 else principal * rate / (1 - (1 + rate) ** -months)
    return {"monthly": round(payment, 2), "total": round(payment * months, 2)}
'''
IMAGES = ROOT / "docs" / "images"
QUESTION = "Which loan payment is due for principal 200000, yearly_rate 3.5, years 25?"
QUESTIONS = [
    QUESTION,
    "loan payment principal 90000 yearly_rate 2.1 years 15",
    "loan payment principal 1 yearly_rate x",
]


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="muster-pictures-"))
    directory.chmod(0o755)
    muster = Live(directory, "--no-greeting")
    try:
        fill(muster)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            take(browser, muster)
            browser.close()
    finally:
        muster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def fill(muster: Live) -> None:
    """A function, an agent that may use it, another that has to ask."""
    post = muster.http.post
    post("/api/v1/functions/", json={"name": "loan-payment", "source": EXAMPLE}).raise_for_status()
    post("/api/v1/functions/loan-payment/publish", json={}).raise_for_status()
    for name, mode in (("money-helper", "allow"), ("careful-helper", "ask")):
        grants = [{"tool": "loan-payment", "mode": mode}]
        agent = {"name": name, "description": "Works out what loans cost.", "provider": "offline", "grants": grants}
        post("/api/v1/agents/", json=agent).raise_for_status()
        post(f"/api/v1/agents/{name}/publish", json={}).raise_for_status()
    for question in QUESTIONS:
        post("/api/v1/agents/money-helper/messages", json={"message": question}).raise_for_status()
    post("/api/v1/agents/careful-helper/messages", json={"message": QUESTION, "wait": 0}).raise_for_status()


def take(browser: Any, muster: Live) -> None:
    IMAGES.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        page = browser.new_page(base_url=muster.url, viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        name, password = re.search(r"login\s+(\S+) / (\S+) ", muster.said).groups()
        page.goto("/login/")
        page.fill("#id_username", name)
        page.fill("#id_password", password)
        page.click("button.primary")
        page.get_by_role("heading", name="Dashboard").wait_for()
        page.screenshot(path=IMAGES / f"dashboard-{scheme}.png", caret="initial")
        page.goto("/playground/?agent=money-helper")
        page.fill("#text", QUESTION)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Run page").wait_for()
        page.locator("details.call summary").first.click()
        page.screenshot(path=IMAGES / f"playground-{scheme}.png", caret="initial")
        page.close()


if __name__ == "__main__":
    main()
