"""A chain built, tried, changed and published in its editor, by keyboard; and what two editors at once see."""

import re
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
        page.locator(f".steps-pane [data-step={after}]").focus()
        page.keyboard.press("n")
    else:
        page.locator("[data-at=add]").focus()
        page.keyboard.press("Enter")
    page.keyboard.type(name)
    page.get_by_role("option", name=name).first.wait_for()
    assert_inside_window(page, "dialog[open]")
    page.keyboard.press("Enter")
    page.locator("#step-key:focus").wait_for()


def press(page, target):
    target.focus()
    page.keyboard.press("Enter")


def rename(page, name):
    page.keyboard.press("Control+a")
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.locator(f".steps-pane [data-step={name}]").wait_for()


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
    press(page, page.get_by_role("button", name="Add a field"))
    page.locator("#f-input_schema-name-0:focus").wait_for()
    page.keyboard.type("texts")
    page.locator("#f-input_schema-type-0").select_option("texts")
    add(page, "text_statistics")
    rename(page, "read")
    press(page, page.locator("#tab-when"))
    page.locator("#step-each").select_option("field:input.texts")
    page.locator("#step-parallel").wait_for()
    add(page, "text_statistics", after="read")
    rename(page, "count")
    write(page, "input-text", "{{steps.read.output[].words}}")
    add(page, "shorten_text", after="count")
    rename(page, "shorten")
    write(page, "input-text", "Texts: {{input.texts}}")
    write(page, "input-length", "20")
    press(page, page.locator("#tab-when"))
    press(page, page.locator("[data-part=when] summary", has_text="Expression").first)
    write(page, "step-when-code", "steps.count.output.words > `0`")
    page.get_by_text("It runs only if words of “count” is greater than 0.").wait_for()
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved. Publish it").wait_for()
    saved = {step["key"]: step for step in live.http.get(f"/api/v1/chains/{name}").json()["steps"]}
    assert saved["count"]["input"] == {"text": "to_string(steps.read.output[].words)"}
    assert (saved["read"]["for_each"], saved["read"]["input"]) == ("input.texts", {"text": "item"})
    assert (saved["shorten"]["needs"], saved["shorten"]["input"]["length"]) == (["count"], {"value": 20})
    press(page, page.locator("[data-at=to-try]"))
    page.locator("#argument-texts:focus").wait_for()
    page.keyboard.type("one two\nthree")
    press(page, page.locator("[data-try=start]"))
    page.locator("[data-try=answer]").get_by_text("succeeded").wait_for()
    assert page.locator(".steps-pane [data-step=read]").get_by_text("succeeded 2/2").count() == 1
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
    page.keyboard.press("ArrowUp")  # the picture of a tall place runs downwards
    page.keyboard.press("Enter")
    page.locator("[data-at=say]", has_text="“read” cannot wait for “write”").wait_for()
    page.locator(".chainpicture [data-step=read]").focus()
    page.keyboard.press("Enter")
    page.locator(".inspector:focus").wait_for()
    page.locator("#step-key").focus()
    rename(page, "look")
    page.locator(".steps-pane [data-step=write]", has_text="after look").wait_for()
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    page.locator(".steps-pane [data-step=look]").focus()
    page.keyboard.press("Delete")
    page.locator(".steps-pane [data-step=look]").wait_for(state="detached")
    assert "“write” waits for it" in asked[0]
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.locator(".steps-pane [data-step=write]", has_text="after read").wait_for()
    page.keyboard.press("Control+Shift+z")
    page.locator(".steps-pane [data-step=look]").wait_for()


def newest_run(live):
    return live.http.get(f"{CHAIN}/runs").json()["results"][0]


def test_one_step_runs_with_a_pinned_output_and_says_so(open_page, chain, live):
    page = open_page("/chains/editor-sums/")
    ready(page)
    page.locator("[data-at=to-try]").click()
    page.locator("#argument-texts").fill("one")
    page.locator("[data-try=start]").click()
    page.locator("[data-try=answer]").get_by_text("succeeded").wait_for()
    whole = newest_run(live)["id"]
    page.locator(".steps-pane [data-step=write]").click()
    page.locator("[data-at=alone]").click()
    page.get_by_text("Output given, does not run: read.").wait_for()
    page.locator(".steps-pane [data-step=read]", has_text="pinned").wait_for()
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
    page.locator(".steps-pane [data-step=write]").click()
    page.locator("#input-text-how").select_option("expression")
    write(page, "input-text", "steps.nowhere.output")
    live.http.patch(CHAIN, json={"description": "Theirs.", "steps": [READ | {"max_parallel": 2}, WRITE]})
    page.keyboard.press("Control+s")
    page.get_by_text("Somebody else changed this chain").wait_for()
    forget(open_page, 412)
    assert serious(page) == []
    picture(page, "chain-clash-desktop")
    page.keyboard.press("Control+s")
    page.locator(".steps-pane [data-step=write] .wrong", has_text="nowhere").wait_for()
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
    page.locator(".steps-pane [data-step=read]").click()
    page.locator("#step-target").click()
    page.locator("#picker-search").fill("text_statistics")
    page.get_by_role("option", name="text_statistics").first.wait_for()
    assert_inside_window(page, "dialog[open]")
    close(page)


def test_the_picker_takes_what_was_typed_and_the_exact_name_first(open_page, chain):
    page = open_page("/chains/editor-sums/")
    ready(page)
    page.locator("[data-at=add]").click()
    page.locator("#picker-list [role=option]").first.wait_for()
    page.keyboard.type("shorten_text")
    page.keyboard.press("Enter")  # before its options came
    page.locator(".steps-pane [data-step=shorten_text]").wait_for()
    page.locator("[data-at=add]").click()
    page.keyboard.type("calculate")
    page.locator("#option-0 b", has_text=re.compile("^calculate$")).wait_for()
    page.evaluate("""() => document.getElementById("picker-search").dispatchEvent(
        new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }))""")
    assert page.locator("dialog[open]").count() == 1, "that Enter was the input method's"
    close(page)


def test_a_step_that_fails_is_opened_with_its_last_run(open_page, live):
    name = f"editor-failing-{secrets.token_hex(3)}"
    step = {"key": "length", "tool": "shorten_text", "input": {"text": {"value": "a"}, "length": {"value": -5}}}
    body = {"name": name, "steps": [step], "grants": [{"tool": "shorten_text"}]}
    live.http.post("/api/v1/chains/", json=body).raise_for_status()
    page = open_page(f"/chains/{name}/")
    ready(page)
    page.locator("[data-at=to-try]").click()
    page.locator("[data-try=start]").click()
    page.locator("#panel-last .note.error").wait_for()
    assert page.locator(".steps-pane [aria-current]").get_attribute("data-step") == "length"


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768)])
def test_the_three_panes_lie_inside_the_window_and_scroll_alone(open_page, chain, width, height):
    page = open_page("/chains/editor-sums/", {"viewport": {"width": width, "height": height}})
    ready(page)
    for pane in (".steps-pane", ".picture-pane", ".inspector"):
        assert_inside_window(page, pane)
    page.locator("#tab-when").click()
    body = page.locator("#panel-when")
    assert body.evaluate("one => getComputedStyle(one).overflowY") == "auto"
