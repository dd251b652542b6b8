"""A headless Chromium or Firefox that is signed in to a live Muster."""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

OUTPUT = Path(__file__).resolve().parents[2] / "test-output"
AXE = Path(__file__).with_name("axe.min.js")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
BROWSER = os.environ.get("BROWSER") or "chromium"
DESKTOP = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A journey with the marker `firefox` runs in both browsers, all others in the one that BROWSER names."""
    marked = metafunc.definition.get_closest_marker("firefox")
    if marked and "browser" in metafunc.fixturenames and "BROWSER" not in os.environ:
        metafunc.parametrize("browser", ["chromium", "firefox"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    launch = request.getfixturevalue("playwright").chromium.launch
    browser = launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if FIREFOX is None:
        pytest.skip("there is no Firefox on this machine")
    program = tmp_path_factory.mktemp("firefox") / "firefox"
    relay = Path(__file__).with_name("firefox.py")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{relay}" "{FIREFOX}" "$@"\n')
    program.chmod(0o755)
    browser = request.getfixturevalue("playwright").firefox.launch(
        channel="moz-firefox", executable_path=program, timeout=120_000
    )
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(getattr(request, "param", BROWSER))


@pytest.fixture(scope="session")
def state(browser: Any, live: Any) -> Any:
    """The cookies of the admin, who signed in by the form."""
    told = (live.data_dir / "first_start.txt").read_text()
    name, password = re.search(r"login\s+(\S+) / (\S+) ", told).groups()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{live.url}/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", "wrong")
    page.click("button.primary")
    page.get_by_role("alert").wait_for()
    page.fill("#id_password", password)
    page.click("button.primary")
    page.get_by_role("heading", name=re.compile("First steps|Dashboard|Chat")).wait_for()
    kept = context.storage_state()
    context.close()
    return kept


def is_ours(line: Any) -> bool:
    """An error of the page. A style refused at line 0 of no script is what the test itself (axe, the driver) tried."""
    at = line.location
    is_style = "inline style" in line.text and (at["lineNumber"], at["columnNumber"]) == (0, 0)
    return line.type in ("error", "warning") and not is_style


def is_drivers(error: Any) -> bool:
    """Firefox reports two things without a place: a style that the driver tried, and a stream of a page that was left."""
    return "blocked an inline style (style-src-elem)" in str(error) or "operation was aborted" in str(error)


@pytest.fixture
def open_page(browser: Any, live: Any, state: Any) -> Iterator[Any]:
    """`open_page("/runs/", PHONE)`: a page that fails the test for an error in its console."""
    contexts, complaints = [], []

    def open_at(path: str, device: dict[str, Any] = DESKTOP, **more: Any) -> Any:
        context = browser.new_context(base_url=live.url, storage_state=state, **device, **more)
        if device.get("color_scheme") == "dark" and browser.browser_type.name == "firefox":
            # see firefox.py: the colours that a person prefers cannot be set there
            context.add_cookies([{"name": "theme", "value": "dark", "url": live.url}])
        contexts.append(context)
        context.add_init_script(path=AXE)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is no failure
        page.on("console", lambda one: complaints.append(f"{one.text} at {one.location}") if is_ours(one) else None)
        page.on("pageerror", lambda error: None if is_drivers(error) else complaints.append(str(error)))
        page.goto(path)
        return page

    open_at.complaints = complaints
    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []


def needs_chromium(browser: Any, reason: str) -> None:
    """Skip this journey in Firefox, for something that its driver cannot do."""
    if browser.browser_type.name == "firefox":
        pytest.skip(f"not in Firefox: {reason}")


def forget(open_page: Any, status: int) -> None:
    """Chromium writes each refusal of the server into its console, Firefox does not; this one was meant."""
    assert [one for one in open_page.complaints if f"status of {status}" not in one] == []
    open_page.complaints.clear()


def serious(page: Any) -> list[str]:
    """What axe-core finds serious or critical."""
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def wait_on(page: Any, condition: Callable[[], Any], within_s: float = 60) -> None:
    """Until it is true, while the page goes on: of what the driver tells, and what no locator can wait for."""
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, f"still not so after {within_s} s"
        page.wait_for_timeout(50)


def picture(page: Any, name: str) -> None:
    OUTPUT.mkdir(exist_ok=True)
    # A hidden caret would be a style that Playwright injects, which the content policy refuses.
    page.screenshot(path=OUTPUT / f"{name}.png", full_page=True, caret="initial")


def assert_inside_window(page: Any, selector: str) -> None:
    """What was opened lies inside the window, whole: nobody reaches what is above it or beside it."""
    page.locator(selector).first.wait_for()
    box = page.locator(selector).first.bounding_box()
    window = page.evaluate("() => ({width: document.documentElement.clientWidth, height: window.innerHeight})")
    assert box is not None and box["width"] > 0 and box["height"] > 0, f"{selector} has no size"
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    assert box["x"] >= -0.5 and box["y"] >= -0.5, f"{selector} begins outside of the window: {box}"
    assert right <= window["width"] + 0.5 and bottom <= window["height"] + 0.5, f"{selector}: {box} in {window}"
