"""An agent written, tried, published, changed and rolled back on its page, as its author and as somebody else does it."""

import secrets
import time

import pytest

from .browser import DESKTOP, PHONE, assert_inside_window, forget, picture, serious, wait_on

pytestmark = [pytest.mark.browser, pytest.mark.live]
SOURCE = '''def add_up(first: int, second: int) -> int:
    """Add up two numbers.

    Args:
        first: A number.
        second: Another number.
    """
    return first + second
'''
AGENT = "/api/v1/agents/studio-adder"


@pytest.fixture(scope="module")
def function(live):
    if live.http.get("/api/v1/functions/add-up").status_code == 200:
        return  # stored when this module ran in the other browser
    post = live.http.post
    post("/api/v1/functions/", json={"name": "add-up", "source": SOURCE}).raise_for_status()
    post("/api/v1/functions/add-up/publish", json={}).raise_for_status()


@pytest.fixture
def published(live, function):
    """An agent with a tool that asks, published once; made anew for each test."""
    body = {"name": "studio-adder", "description": "Adds.", "provider": "offline", "system_prompt": "Be brief.\nBe kind.",
            "grants": [{"tool": "add-up", "mode": "ask"}], "examples": ["add up first 2 second 3"]}  # fmt: skip
    live.http.put(AGENT, json=body) if live.http.get(AGENT).status_code == 200 else live.http.post(
        "/api/v1/agents/", json=body
    ).raise_for_status()
    live.http.post(f"{AGENT}/publish", json={}).raise_for_status()


def ready(page):
    page.locator("[data-publish]:enabled").wait_for()


@pytest.mark.firefox
def test_an_own_function_in_an_own_agent_that_asks_before_it_calls(open_page, function, live):
    started = time.monotonic()
    name = f"studio-sums-{secrets.token_hex(3)}"
    page = open_page("/agents/")
    page.get_by_role("link", name="New agent").click()
    page.fill("#name", "Not A Name")
    page.get_by_role("button", name="Create and open").click()
    page.locator("#name-wrong:visible").wait_for()
    forget(open_page, 422)
    page.fill("#name", name)
    page.fill("#description", "Adds numbers.")
    page.select_option("#provider", "offline")
    page.get_by_role("button", name="Create and open").click()
    page.get_by_role("heading", name=name).wait_for()
    ready(page)
    page.fill("#f-system_prompt", "You add numbers.")
    page.get_by_role("tab", name="Tools").click()
    page.fill("#tool-search", "add-up")
    page.get_by_role("button", name="Add add-up").click()
    page.get_by_label("Calls: add-up").select_option("ask")
    page.get_by_text("unsaved changes").wait_for()
    page.fill("#text", "add up first 2 second 40")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve").click()
    page.locator(".try").get_by_role("link", name="Run page").wait_for()
    assert "42" in page.locator(".try .answers").inner_text()
    page.get_by_role("button", name="Publish").click()
    assert_inside_window(page, "dialog[open]")
    page.fill("#note", "First try")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    page.get_by_text("Version 1 is live.").wait_for()
    took = time.monotonic() - started
    assert took < 300
    runs = live.http.get(f"/api/v1/runs/?trigger=draft&agent={name}").json()["results"]
    assert len(runs) == 1  # other journeys try drafts, too
    page.goto(f"/agents/?search={name}")
    page.get_by_role("row", name=name).get_by_text("v1").wait_for()
    picture(page, "agents-list-desktop")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f"Archive {name}").click()
    page.get_by_text("No agent matches.").wait_for()


def test_it_is_changed_published_compared_and_rolled_back(open_page, published, live):
    page = open_page("/agents/studio-adder/")
    ready(page)
    page.fill("#f-system_prompt", "Be brief.\nBe cheerful.")
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved.").wait_for()
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").locator("ins", has_text="Be cheerful.").wait_for()
    picture(page, "agent-publish-desktop")
    page.fill("#note", "More cheer")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    page.get_by_text("is live.", exact=False).first.wait_for()
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("row", name="More cheer").get_by_role("button", name="Compare with v").click()
    page.locator("#panel-versions .changes del", has_text="Be kind.").wait_for()
    assert serious(page) == []
    picture(page, "agent-versions-desktop")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Roll back to it").last.click()
    page.get_by_text("Version 1 is live.").wait_for()
    assert live.http.get(AGENT).json()["published_version"] == 1


def test_what_somebody_else_saved_meanwhile_is_shown_and_not_overwritten(open_page, published, live):
    page = open_page("/agents/studio-adder/")
    ready(page)
    page.fill("#f-system_prompt", "My text.")
    live.http.patch(AGENT, json={"system_prompt": "Their text.", "description": "Theirs."}).raise_for_status()
    page.get_by_role("button", name="Save draft").click()
    page.get_by_text("Somebody else changed this agent").wait_for()
    forget(open_page, 412)
    assert live.http.get(AGENT).json()["system_prompt"] == "Their text."
    assert page.input_value("#f-description") == "Theirs."
    assert page.input_value("#f-system_prompt") == "My text."
    assert serious(page) == []
    picture(page, "agent-clash-desktop")
    page.get_by_role("button", name="Take theirs: Instructions").click()
    assert page.input_value("#f-system_prompt") == "Their text."
    page.fill("#f-system_prompt", "Both texts.")
    page.get_by_role("button", name="Save draft").click()
    page.get_by_text("The draft is saved.").wait_for()
    assert live.http.get(AGENT).json()["system_prompt"] == "Both texts."


def test_a_refused_value_is_explained_at_its_field(open_page, published, live):
    page = open_page("/agents/studio-adder/#limits")
    ready(page)
    page.fill("#f-max_steps", "9999")
    page.get_by_role("button", name="Save draft").click()
    page.locator("#f-max_steps-wrong", has_text="200").wait_for()
    forget(open_page, 422)
    assert page.evaluate("document.activeElement.id") == "f-max_steps"
    page.fill("#budget-cost", "2.50")
    page.get_by_role("button", name="Add a budget").click()
    page.get_by_text("$2.50 a day, for everyone").wait_for()
    page.get_by_role("button", name="Remove $2.50").click()
    page.get_by_text("No budget limits this agent.").wait_for()
    page.get_by_role("tab", name="Data").click()
    page.locator("#panel-data summary", has_text="As JSON Schema").last.click()
    page.fill("#f-output_schema", "{no json")
    page.fill("#f-variables", "")
    page.get_by_role("button", name="Save draft").click()
    page.locator("#f-output_schema-wrong", has_text="not JSON").wait_for()
    assert live.http.get(AGENT).json()["max_steps"] != 9999


@pytest.mark.firefox
def test_leaving_with_unsaved_changes_asks(open_page, published):
    page = open_page("/agents/studio-adder/")
    ready(page)
    page.fill("#f-description", "Something else.")
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    leave = page.get_by_role("navigation").get_by_role("link", name="Agents", exact=True).first
    leave.click(no_wait_after=True)  # Firefox asks only a person who has clicked
    page.wait_for_function("document.getElementById('f-description')")
    wait_on(page, lambda: asked)
    assert asked == ["beforeunload"] and page.url.endswith("/agents/studio-adder/")
    page.fill("#f-description", "Adds.")
    leave.click()
    page.get_by_role("heading", name="Agents").wait_for()


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_every_part_is_accessible_and_fits(device, open_page, published, request):
    page = open_page("/agents/studio-adder/", device)
    ready(page)
    for part in ("write", "tools", "knowledge", "limits", "data", "versions", "use"):
        page.locator(f"#{part}").click()
        page.wait_for_load_state("networkidle")
        assert serious(page) == [], part
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, part
        picture(page, f"agent-{part}-{request.node.callspec.id}")


def test_a_model_is_picked_from_the_providers_list_or_typed(open_page, published, live):
    page = open_page("/agents/studio-adder/")
    listed = {"models": ["small", "large"], "default_model": "small"}
    page.route("**/api/v1/providers/offline/models", lambda route: route.fulfill(json=listed))
    ready(page)
    page.focus("#f-model_name")
    page.get_by_text("2 models to choose from; others can be typed. Empty: small.").wait_for()
    assert page.locator("#models option").evaluate_all("all => all.map((one) => one.value)") == ["small", "large"]
    page.fill("#f-model_name", "another")
    page.get_by_role("button", name="Save draft").click()
    page.get_by_text("The draft is saved.").wait_for()
    assert live.http.get(AGENT).json()["model_name"] == "another"


def test_memory_is_one_switch_that_also_grants_its_tools(open_page, published, live):
    page = open_page("/agents/studio-adder/#knowledge")
    ready(page)
    page.get_by_label("It remembers what people tell it").check()
    page.get_by_text("unsaved changes").wait_for()
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved.").wait_for()
    agent = live.http.get(AGENT).json()
    assert agent["memory"] == "suggest"
    assert {"remember", "recall", "forget"} <= {grant["tool"] for grant in agent["grants"]}
    page.get_by_role("tab", name="Tools").click()
    names = page.locator("[data-granted] li").all_inner_texts()
    assert len(names) == 1, "the switch stands for the tools of memory"
    page.get_by_role("tab", name="Knowledge").click()
    page.get_by_label("It remembers what people tell it").uncheck()
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved.").wait_for()
    wait_on(page, lambda: live.http.get(AGENT).json()["memory"] == "off")
    assert [grant["tool"] for grant in live.http.get(AGENT).json()["grants"]] == ["add-up"]


def test_the_form_of_an_answer_is_a_table_of_fields(open_page, published, live):
    page = open_page("/agents/studio-adder/#data")
    ready(page)
    table = page.locator("[data-schema-for=f-output_schema]")
    table.get_by_role("button", name="Add a field").click()
    page.keyboard.type("total")
    table.get_by_label("Type of field 1").select_option("number")
    page.keyboard.press("Control+s")
    page.get_by_text("The draft is saved.").wait_for()
    schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    assert live.http.get(AGENT).json()["output_schema"] == schema


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 900), (1024, 768)])
def test_what_is_written_to_the_agent_is_in_view(open_page, published, width, height):
    page = open_page("/agents/studio-adder/", {"viewport": {"width": width, "height": height}})
    ready(page)
    assert_inside_window(page, ".try .composer")


def test_publishing_says_what_changed_in_the_labels_of_the_form(open_page, published, live):
    page = open_page("/agents/studio-adder/#limits")
    ready(page)
    page.fill("#f-max_steps", "7")
    page.get_by_role("tab", name="Tools").click()
    page.get_by_label("Calls: add-up").select_option("allow")
    page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("dt", has_text="Steps of a run").wait_for()
    words = dialog.inner_text()
    assert "12 → 7" in words and "Tool “add-up”: Calls" in words
    assert "definition_hash" not in words and "deadline_s" not in words


def test_a_chat_for_web_sites_begins_on_the_page_of_its_agent_and_is_seen_live(open_page, published):
    page = open_page("/agents/studio-adder/#sites")
    ready(page)
    page.get_by_role("button", name="Create a chat, switched off").click()
    page.get_by_label("Visitors may use it").check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("the chat as visitors see it").wait_for()
    page.get_by_role("button", name="Open the chat").click()
    page.get_by_role("textbox", name="Write a message").wait_for()
    page.goto("/agents/studio-adder/#sites")
    page.locator("#panel-sites li", has_text="on").first.wait_for()
