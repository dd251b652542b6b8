"""A chat with much in it: 500 messages, a pasted text of 200 kB, a folder that is dropped, and a tab that slept."""

import re
import secrets

import pytest

from tests.fakes import says

from .browser import assert_inside_window, needs_chromium
from .chat import create_agent, send
from .test_chat_elsewhere import add_turns, finish

pytestmark = [pytest.mark.browser, pytest.mark.live, pytest.mark.usefixtures("nothing_left_to_say")]
TURNS = 249  # beside the first one
PASTED = "A line of what was pasted.\n" * 7600
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const field = document.querySelector("#text");
  const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
  if (field.dispatchEvent(event)) field.setRangeText(text, 0, 0, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
# What the browser hands over for a folder: an item without content, whose entry is a directory.
DROP = """() => {
  const item = { kind: "file", webkitGetAsEntry: () => ({ isDirectory: true }), getAsFile: () => new File([], "papers") };
  const event = new Event("drop", { bubbles: true, cancelable: true });
  Object.defineProperty(event, "dataTransfer", { value: { items: [item], files: [], types: ["Files"] } });
  document.querySelector("#text").dispatchEvent(event);
}"""


@pytest.fixture(scope="module")
def agent(live, model):
    return create_agent(live, model, f"archivist-{secrets.token_hex(3)}")


@pytest.fixture
def page(open_page, agent, model):
    model.script(says("First answer."))
    page = open_page(f"/playground/?agent={agent}")
    send(page, "First")
    finish(page, "First answer.", 1)
    return page


def find_session(page):
    return re.search(r"session=([\w-]+)", page.url).group(1)


def test_five_hundred_messages_are_read_and_go_on(page, live, model):
    add_turns(live, find_session(page).replace("-", ""), TURNS)
    page.reload()
    page.locator(".say.assistant", has_text=f"Answer {TURNS - 1}.").wait_for()
    assert_inside_window(page, "#text")
    earlier = page.get_by_role("link", name="Earlier messages")
    while earlier.count():
        shown = page.locator(".say.user").count()
        earlier.click()
        page.wait_for_function("(shown) => document.querySelectorAll('.say.user').length > shown", arg=shown)
    questions = [f"Question {number}." for number in range(TURNS)]
    assert page.locator(".say.user").all_text_contents() == ["First", *questions]

    model.script(says("Still here."))
    send(page, "And now?")
    page.locator(".say.assistant", has_text="Still here.").wait_for()
    assert_inside_window(page, "#text")


def test_a_pasted_text_of_200_kb_arrives_whole(page, model):
    page.evaluate(PASTE, PASTED)
    assert len(page.input_value("#text")) == len(PASTED) > 200_000
    assert_inside_window(page, "#text")
    assert_inside_window(page, "[data-send]")
    model.script(says("Much to read."))
    page.focus("#text")
    page.keyboard.press("Enter")
    finish(page, "Much to read.", 2)

    assert model.requests[-1]["messages"][-1]["content"].strip() == PASTED.strip()
    assert page.input_value("#text") == ""
    assert_inside_window(page, "#text")


def test_a_dropped_folder_is_refused_in_words(page):
    page.evaluate(DROP)
    page.get_by_text("A folder cannot be attached").wait_for()
    assert page.locator(".attached li").count() == 0
    assert_inside_window(page, "#text")


def test_a_tab_that_slept_shows_what_came_meanwhile(page, browser, agent, live, model):
    needs_chromium(browser, "its driver cannot freeze a tab")
    model.script(says("Meanwhile."))
    tab = page.context.new_cdp_session(page)
    tab.send("Page.setWebLifecycleState", {"state": "frozen"})
    body = {"message": "From a phone", "session": find_session(page), "wait": 60}
    live.http.post(f"/api/v1/agents/{agent}/messages", json=body).raise_for_status()
    tab.send("Page.setWebLifecycleState", {"state": "active"})
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as a person who looks at it again
    finish(page, "Meanwhile.", 2)
    assert page.locator(".say.user").all_text_contents() == ["First", "From a phone"]
    assert_inside_window(page, "#text")
