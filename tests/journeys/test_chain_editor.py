"""A chain built, tried, changed and published in its editor, by keyboard; and what two editors at once see."""

import secrets

import pytest

from .browser import DESKTOP, OUTPUT, PHONE, assert_inside_window, forget, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]
CHAIN = "/api/v1/chains/editor-sums"
INPUT = {
    "type": "object",
    "properties": {"texts": {"type": "array", "items": {"type": "string"}}},
    "required": ["texts"],
}
READ = {"key": "read", "tool": "text_statistics", "for_each": "input.texts", "input": {"text": "item"}}
WRITE = {"key": "write", "tool": "text_statistics", "needs": ["read"], "input": {"text": {"value": "one two"}}}


@pytest.fixture
def chain(live):
    """Two steps that are published; made anew for each test."""
    body = {"name": "editor-sums", "description": "Reads.", "input_schema": INPUT, "steps": [READ, WRITE]}
    if live.http.get(CHAIN).status_code == 200:
        live.http.put(CHAIN, json=body).raise_for_status()
    else:
        live.http.post("/api/v1/chains/", json=body).raise_for_status()
    live.http.post(f"{CHAIN}/publish", json={}).raise_for_status()


def ready(page):
    page.locator("[data-at=publish]:enabled").wait_for()
    page.wait_for_load_state("networkidle")


def add(page, name, *, after=""):
    """A step, with keys alone."""
    if after:
        page.locator(f".outline [data-step={after}]").focus()
        page.keyboard.press("n")
    else:
        page.locator("[data-at=add]").focus()
        page.keyboard.press("Enter")
    page.keyboard.type(name)
    page.get_by_role("option", name=name).first.wait_for()
    assert_inside_window(page, "dialog[open]")
    page.keyboard.press("Enter")
    page.locator("#step-key:focus").wait_for()


def rename(page, name):
    page.keyboard.press("Control+a")
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.locator(f".outline [data-step={name}]").wait_for()


def write(page, field, text):
    page.locator(f"#{field}").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


@pytest.mark.firefox
def test_three_steps_with_a_loop_and_a_condition_by_keyboard(open_page, live):
    name = f"editor-journey-{secrets.token_hex(3)}"
    page = open_page("/chains/new/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.get_by_text("No step yet.").wait_for()
    ready(page)
    picture(page, "chain-empty-desktop")
    page.locator("#build").focus()
    page.keyboard.press("ArrowRight")
    write(page, "f-input_schema", '{"properties": {"texts": {"type": "array"}}, "required": ["texts"]}')
    page.locator("#settings").focus()
    page.keyboard.press("ArrowLeft")
    add(page, "text_statistics")
    rename(page, "read")
    write(page, "step-each", "input.texts")
    page.locator("#step-parallel").wait_for()
    page.locator("#input-text-how").select_option("expression")
    write(page, "input-text", "item")
    add(page, "text_statistics", after="read")
    rename(page, "count")
    write(page, "input-text", "{{steps.read.output[].words}}")
    page.get_by_text("to_string(steps.read.output[].words)").wait_for()
    add(page, "shorten_text", after="count")
    rename(page, "shorten")
    write(page, "step-when-code", "steps.count.output.words > `0`")
    page.get_by_text("It runs only if words of “count” is greater than 0.").wait_for()
    write(page, "input-text", "Texts: {{input.texts}}")
    page.locator("#input-length-how").select_option("value")
    write(page, "input-length", "20")
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved. Publish it").wait_for()
    saved = {step["key"]: step for step in live.http.get(f"/api/v1/chains/{name}").json()["steps"]}
    assert (saved["read"]["for_each"], saved["read"]["input"]) == ("input.texts", {"text": "item"})
    assert (saved["shorten"]["needs"], saved["shorten"]["input"]["length"]) == (["count"], {"value": 20})
    page.locator("#try").click()
    page.locator("#argument-texts").fill('["one two", "three"]')
    page.locator("[data-try=start]").focus()
    page.keyboard.press("Enter")
    page.locator("[data-try=answer]").get_by_text("succeeded").wait_for()
    assert page.locator(".outline [data-step=read]").get_by_text("succeeded 2/2").count() == 1
    assert "succeeded" in page.locator(".chainpicture [data-step=shorten] title").text_content()
    assert serious(page) == []
    picture(page, "chain-tried-desktop")
    page.locator("[data-at=publish]").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("This is the first version.").wait_for()
    assert_inside_window(page, "dialog[open]")
    page.get_by_role("dialog").get_by_role("button", name="Publish").press("Enter")
    page.get_by_text("Version 1 is live.").wait_for()
    (run,) = live.http.get(f"/api/v1/chains/{name}/runs").json()["results"]
    assert (run["trigger"], run["status"]) == ("draft", "succeeded")


@pytest.mark.firefox
def test_steps_are_connected_renamed_deleted_and_brought_back(open_page, chain):
    page = open_page("/chains/editor-sums/")
    ready(page)
    page.locator(".chainpicture [data-step=write]").focus()
    page.keyboard.press("c")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator("[data-at=say]", has_text="“read” cannot wait for “write”").wait_for()
    page.locator(".chainpicture [data-step=read]").focus()
    page.keyboard.press("Enter")
    page.locator("#step-key:focus").wait_for()
    rename(page, "look")
    page.locator(".outline [data-step=write]", has_text="after look").wait_for()
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    page.locator(".outline [data-step=look]").focus()
    page.keyboard.press("Delete")
    page.locator(".outline [data-step=look]").wait_for(state="detached")
    assert "“write” waits for it" in asked[0]
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.locator(".outline [data-step=write]", has_text="after read").wait_for()
    page.keyboard.press("Control+Shift+z")
    page.locator(".outline [data-step=look]").wait_for()


def newest_run(live):
    return live.http.get(f"{CHAIN}/runs").json()["results"][0]


def test_one_step_runs_with_a_pinned_output_and_says_so(open_page, chain, live):
    page = open_page("/chains/editor-sums/")
    ready(page)
    page.locator("#try").click()
    page.locator("#argument-texts").fill('["one"]')
    page.locator("[data-try=start]").click()
    page.locator("[data-try=answer]").get_by_text("succeeded").wait_for()
    whole = newest_run(live)["id"]
    page.locator(".outline [data-step=write]").click()
    page.locator("[data-at=alone]").click()
    page.get_by_text("Output given, does not run: read.").wait_for()
    page.locator(".outline [data-step=read]", has_text="pinned").wait_for()
    for _ in range(300):  # the answer still shows the first try for a moment
        newest = newest_run(live)
        if newest["id"] != whole and newest["status"] == "succeeded":
            break
        page.wait_for_timeout(100)
    rows = live.http.get(f"/api/v1/runs/{newest['id']}/steps/").json()["results"]
    assert {row["key"]: row["pinned"] for row in rows} == {"read": True, "write": False}


def test_a_problem_stands_at_its_step_and_another_editor_is_not_overwritten(open_page, chain, live):
    page = open_page("/chains/editor-sums/")
    ready(page)
    page.locator(".outline [data-step=write]").click()
    page.locator("#input-text-how").select_option("expression")
    write(page, "input-text", "steps.nowhere.output")
    live.http.patch(CHAIN, json={"description": "Theirs.", "steps": [READ | {"max_parallel": 2}, WRITE]})
    page.keyboard.press("Control+s")
    page.get_by_text("Somebody else changed this chain").wait_for()
    forget(open_page, 412)
    assert serious(page) == []
    picture(page, "chain-clash-desktop")
    page.keyboard.press("Control+s")
    page.locator(".outline [data-step=write] .wrong", has_text="nowhere").wait_for()
    steps = live.http.get(CHAIN).json()["steps"]
    assert (steps[0]["max_parallel"], steps[1]["input"]["text"]) == (2, "steps.nowhere.output")
    page.locator("[data-at=publish]").click()
    page.get_by_text("Not published.").wait_for()
    assert live.http.get(CHAIN).json()["description"] == "Theirs."


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_every_part_is_accessible_and_fits(device, open_page, chain, request):
    page = open_page("/chains/editor-sums/", device)
    ready(page)
    for part in ("build", "settings", "versions", "use"):
        page.locator(f"#{part}").click()
        page.wait_for_load_state("networkidle")
        assert serious(page) == [], part
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, part
        picture(page, f"chain-{part}-{request.node.callspec.id}")


def close(page):
    """The first Escape clears what was typed, the second one closes."""
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 700), (390, 844), (1024, 480)])
def test_every_picker_opens_inside_the_window(open_page, chain, width, height, theme):
    OUTPUT.mkdir(exist_ok=True)
    page = open_page("/chains/editor-sums/", {"viewport": {"width": width, "height": height}, "color_scheme": theme})
    ready(page)
    page.locator("[data-at=add]").click()
    page.locator("#picker-search").fill("text_statistics")
    page.get_by_role("option", name="text_statistics").first.wait_for()
    assert_inside_window(page, "dialog[open]")
    page.screenshot(path=OUTPUT / f"picker-add-{width}x{height}-{theme}.png", caret="initial")
    close(page)
    page.locator(".outline [data-step=read]").click()
    page.locator("#step-target").click()
    page.locator("#picker-search").fill("text_statistics")
    page.get_by_role("option", name="text_statistics").first.wait_for()
    assert_inside_window(page, "dialog[open]")
    close(page)
    page.get_by_role("button", name="Choose a field").first.click()
    page.locator("#picker-list [role=option]").first.wait_for()
    assert_inside_window(page, "dialog[open]")
    page.screenshot(path=OUTPUT / f"picker-choose-{width}x{height}-{theme}.png", caret="initial")
    close(page)
