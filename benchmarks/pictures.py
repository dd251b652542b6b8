"""Pictures of every page that a person can reach by links, in two sizes and two themes, with what is wrong on each.

    python -m benchmarks.pictures URL NAME PASSWORD [FOLDER] [--only desktop-dark] [--from /admin/] [--language de]

It signs in, follows the links of each page and keeps one page of each route. Into FOLDER
(test-output/pictures) it writes one picture per page, size and theme. It prints what axe-core
finds, what is wider than the window, and what the browser writes into its console.
"""

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

AXE = Path(__file__).resolve().parents[1] / "tests" / "journeys" / "axe.min.js"
SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}
LINKS = "[...document.querySelectorAll('a[href]')].map((one) => one.href)"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOUND = """async () => (await axe.run()).violations.map(
  (one) => `${one.impact} ${one.id}: ${one.nodes.length} x ${one.nodes[0].html.slice(0, 160)}`)"""


def route_of(path: str) -> str:
    """The name of the route and, in the admin, of the model; "" for what is no page."""
    from django.urls import Resolver404, resolve

    try:
        match = resolve(path)
    except Resolver404:
        return ""
    is_page = match.view_name.startswith(("page:", "admin:"))
    return match.view_name if is_page and "jsi18n" not in path and "/client/" not in path else ""


def reachable(page: Any, start: str) -> Iterator[tuple[str, str]]:
    """Each route with one address of it, and the page open there."""
    waiting, seen = [start], {route_of(start)}
    while waiting:
        path = waiting.pop(0)
        answer = page.goto(path)
        if answer is None or "text/html" not in answer.headers.get("content-type", ""):
            continue
        page.wait_for_load_state("networkidle")
        yield route_of(path), path
        here = urlsplit(page.url).netloc
        for address in page.evaluate(LINKS):
            link = urlsplit(address)
            route = route_of(link.path) if link.netloc == here else ""
            if route and route not in seen:
                seen.add(route)
                waiting.append(link.path)


def look(browser: Any, options: argparse.Namespace, size: str, theme: str) -> None:
    context = browser.new_context(
        base_url=options.url, viewport=SIZES[size], color_scheme=theme, locale=options.language
    )
    context.add_init_script(path=AXE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda line: complaints.append(line.text) if is_ours(line) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/login/")
    page.fill("#id_username", options.name)
    page.fill("#id_password", options.password)
    page.click("button.primary")
    page.wait_for_load_state("networkidle")
    for route, path in reachable(page, options.start):
        picture = options.folder / f"{re.sub(r'[^a-z0-9_-]+', '-', route)}-{size}-{theme}.png"
        page.screenshot(path=picture, full_page=True, caret="initial")
        wide = page.evaluate(TOO_WIDE)
        faults = [f"{wide} px too wide"] * (wide > 0) + page.evaluate(FOUND) + complaints
        complaints.clear()
        for fault in faults:
            print(f"{size}-{theme} {route} {path}: {fault}", flush=True)
    context.close()


def is_ours(line: Any) -> bool:
    """An error of the page. A style refused at line 0 of no script is what axe tried."""
    at = line.location
    is_axe = "inline style" in line.text and (at["lineNumber"], at["columnNumber"]) == (0, 0)
    return line.type in ("error", "warning") and not is_axe


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("password")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("test-output/pictures"))
    parser.add_argument("--only", default="", help="one size and theme, such as phone-dark")
    parser.add_argument("--from", dest="start", default="/", help="the page to start at")
    parser.add_argument("--language", default="en", help="the language that the browser asks for")
    return parser.parse_args()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from playwright.sync_api import sync_playwright

    from benchmarks.browser import chromium

    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for size in SIZES:
            for theme in ("light", "dark"):
                if options.only in ("", f"{size}-{theme}"):
                    look(browser, options, size, theme)
        browser.close()


if __name__ == "__main__":
    main()
