"""A headless Chromium that is signed in to a live Muster."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OUTPUT = Path(__file__).resolve().parents[2] / "test-output"
AXE = Path(__file__).with_name("axe.min.js")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DESKTOP = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def state(chromium: Any, live: Any) -> Any:
    """The cookies of the admin, who signed in by the form."""
    told = (live.data_dir / "first_start.txt").read_text()
    name, password = re.search(r"login\s+(\S+) / (\S+) ", told).groups()
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{live.url}/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", "wrong")
    page.click("button.primary")
    page.get_by_role("alert").wait_for()
    page.fill("#id_password", password)
    page.click("button.primary")
    page.get_by_role("heading", name=re.compile("First steps|Dashboard")).wait_for()
    kept = context.storage_state()
    context.close()
    return kept


def is_ours(line: Any) -> bool:
    """An error of the page. A style refused at line 0 of no script is what the test itself (axe, the driver) tried."""
    at = line.location
    is_driver = "inline style" in line.text and (at["lineNumber"], at["columnNumber"]) == (0, 0)
    return line.type in ("error", "warning") and not is_driver


@pytest.fixture
def open_page(chromium: Any, live: Any, state: Any) -> Iterator[Any]:
    """`open_page("/runs/", PHONE)`: a page that fails the test for an error in its console."""
    contexts, complaints = [], []

    def open_at(path: str, device: dict[str, Any] = DESKTOP, **more: Any) -> Any:
        context = chromium.new_context(base_url=live.url, storage_state=state, **device, **more)
        contexts.append(context)
        context.add_init_script(path=AXE)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is no failure
        page.on("console", lambda one: complaints.append(f"{one.text} at {one.location}") if is_ours(one) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path)
        return page

    open_at.complaints = complaints
    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []


def serious(page: Any) -> list[str]:
    """What axe-core finds serious or critical."""
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def picture(page: Any, name: str) -> None:
    OUTPUT.mkdir(exist_ok=True)
    # A hidden caret would be a style that Playwright injects, which the content policy refuses.
    page.screenshot(path=OUTPUT / f"{name}.png", full_page=True, caret="initial")
