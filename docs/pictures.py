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

from tests.fakes import StubOpenAI, Turn, calls, says  # noqa: E402
from tests.live import Live  # noqa: E402

FUNCTIONS = {
    "find_charges": '''def find_charges(invoice: str) -> list[dict]:
    """The charges that were made for an invoice."""
    return [
        {"charge": "ch_7731", "amount": 49.0},
        {"charge": "ch_7732", "amount": 49.0},
    ]
''',
    "refund_charge": '''def refund_charge(charge: str, amount: float, reason: str = "") -> dict:
    """Pay a charge back to the customer."""
    return {"refund": "re_2041", "charge": charge, "amount": amount}
''',
}
QUESTION = "Invoice 2041 was charged twice. Please refund one of the charges."
IMAGES = ROOT / "docs" / "images"


def answer(body: dict[str, Any]) -> Turn:
    """The scripted model: look at the charges, ask for the refund, report it."""
    answered = sum(message["role"] == "tool" for message in body["messages"])
    if answered == 0:
        return calls(("find_charges", {"invoice": "2041"}), pause_s=0.02)
    if answered == 1:
        text = "Invoice 2041 was charged twice. I will refund the second charge, ch_7732."
        refund = {"charge": "ch_7732", "amount": 49.0, "reason": "duplicate"}
        return Turn(text=text, calls=(("refund_charge", refund),), pause_s=0.02)
    return says("Done: 49.00 of charge ch_7732 is refunded (re_2041). The first charge stays.", pause_s=0.02)


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="muster-pictures-"))
    directory.chmod(0o755)
    muster = Live(directory, "--no-greeting", MUSTER_PRIVATE_HOSTS="127.0.0.1")
    try:
        with StubOpenAI() as model, sync_playwright() as playwright:
            model.otherwise = answer
            fill(muster, model.url)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            take(browser, muster)
            browser.close()
    finally:
        muster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def fill(muster: Live, model: str) -> None:
    """Two functions, and an agent that may use one of them and has to ask before the other."""

    def post(path: str, **body: Any) -> None:
        muster.http.post(f"/api/v1/{path}", json=body).raise_for_status()

    for name, source in FUNCTIONS.items():
        effect = "read" if name == "find_charges" else "write"
        post("functions/", name=name, source=source, effect=effect)
        post(f"functions/{name}/publish")
    post("providers/", name="scripted", kind="openai-compatible", base_url=model, api_key="unused")
    grants = [{"tool": "find_charges"}, {"tool": "refund_charge", "mode": "ask"}]
    post("agents/", name="billing", description="Answers questions about invoices and refunds charges.",
         provider="scripted", model_name="scripted", grants=grants)  # fmt: skip
    post("agents/billing/publish")


def take(browser: Any, muster: Live) -> None:
    IMAGES.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        page = browser.new_page(base_url=muster.url, viewport={"width": 1200, "height": 945}, color_scheme=scheme)
        name, password = re.search(r"login\s+(\S+) / (\S+) ", muster.said).groups()
        page.goto("/login/")
        page.fill("#id_username", name)
        page.fill("#id_password", password)
        page.click("button.primary")
        page.get_by_role("heading", name="Dashboard").wait_for()
        page.goto("/playground/?agent=billing")
        page.fill("#text", QUESTION)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Approve").wait_for()
        page.locator("details.call summary").first.click()
        page.get_by_role("button", name="Approve").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.screenshot(path=IMAGES / f"approval-{scheme}.png", caret="initial")
        page.get_by_role("button", name="Approve").click()
        page.get_by_role("link", name="Run page").click()
        page.get_by_text("succeeded").first.wait_for()
        page.screenshot(path=IMAGES / f"run-{scheme}.png", caret="initial")
        page.close()


if __name__ == "__main__":
    main()
