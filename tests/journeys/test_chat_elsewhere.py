"""A conversation in two tabs, after the session has ended, off the network, from long ago, and in every script."""

import re
import secrets
import sqlite3
from contextlib import closing

import pytest

from tests.fakes import says

from .browser import forget, picture, serious
from .chat import choose_for_item, create_agent, send

pytestmark = [pytest.mark.browser, pytest.mark.live, pytest.mark.usefixtures("nothing_left_to_say")]
LONG = " ".join(f"word{number}" for number in range(30))
TURNS = 130
PASTED = """async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 30 });
  canvas.getContext("2d").fillRect(5, 5, 20, 20);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const data = new DataTransfer();
  data.items.add(new File([blob], "image.png", { type: "image/png" }));
  document.querySelector("#text").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""
# As Safari sends them: the composition has ended, and the Enter that ended it follows.
COMPOSED = """(element) => {
  const press = (options) => element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, composed: true, ...options }));
  return [press({ keyCode: 229 }), press({ isComposing: true, keyCode: 13 })];
}"""


@pytest.fixture(scope="module")
def agent(live, model):
    return create_agent(live, model, f"clerk-{secrets.token_hex(3)}")


def finish(page, text, turns):
    page.locator(".say.assistant", has_text=text).wait_for()
    page.locator(".facts-line").nth(turns - 1).wait_for()


def begin(open_page, agent, model, *answers):
    """A page with a conversation of one answered message."""
    model.script(says("First answer."), *answers)
    page = open_page(f"/playground/?agent={agent}")
    send(page, "First")
    finish(page, "First answer.", 1)
    return page


def another_tab(page):
    other = page.context.new_page()
    other.set_default_timeout(120_000)
    other.goto(page.url)
    other.locator(".facts-line").wait_for()
    return other


def test_two_tabs_of_one_conversation_follow_each_other(open_page, agent, model):
    page = begin(open_page, agent, model, says(f"Second. {LONG} The end.", pause_s=0.05), says("Third answer."))
    other = another_tab(page)
    send(page, "Second question")
    other.locator(".say.assistant.live", has_text="word0 word1").wait_for()
    finish(other, "The end.", 2)
    assert other.locator(".say.user").all_text_contents() == ["First", "Second question"]
    finish(page, "The end.", 2)
    send(other, "Third question")
    finish(page, "Third answer.", 3)
    finish(other, "Third answer.", 3)
    for tab in (page, other):
        assert tab.locator(".say.user").all_text_contents() == ["First", "Second question", "Third question"]
        assert tab.locator(".say.assistant").count() == 3


def test_a_page_that_one_comes_back_to_shows_what_came_meanwhile(open_page, agent, model, live):
    page = begin(open_page, agent, model, says("Meanwhile."))
    session = re.search(r"session=([\w-]+)", page.url).group(1)
    page.goto("/account/")
    body = {"message": "From a phone", "session": session, "wait": 60}
    live.http.post(f"/api/v1/agents/{agent}/messages", json=body).raise_for_status()
    page.go_back()
    finish(page, "Meanwhile.", 2)
    assert page.locator(".say.user").all_text_contents() == ["First", "From a phone"]


def test_a_message_after_the_session_has_ended_says_how_to_go_on(open_page, agent, model):
    page = begin(open_page, agent, model)
    cookies = [one for one in page.context.cookies() if one["name"] != "sessionid"]
    kept = [one for one in page.context.cookies() if one["name"] == "sessionid"]
    page.context.clear_cookies()
    page.context.add_cookies(cookies)
    send(page, "A long thought")
    note = page.locator(".note", has=page.get_by_role("link", name="Sign in again"))
    note.wait_for()
    page.locator(".note.error", has_text="You are signed out: sign in again.").wait_for()
    assert "Bearer" not in page.locator("body").inner_text()
    assert page.input_value("#text") == "A long thought"
    assert serious(page) == []
    picture(page, "chat-signed-out")
    forget(open_page, 401)

    model.script(says("Thought through."))
    page.context.add_cookies(kept)
    page.focus("#text")
    page.keyboard.press("Enter")
    finish(page, "Thought through.", 2)


def test_an_answer_goes_on_after_the_network_was_away(open_page, agent, model):
    page = begin(open_page, agent, model, says(f"Slow. {LONG} The end.", pause_s=0.1))
    send(page, "Slowly, please")
    page.locator(".say.assistant.live", has_text="word1").wait_for()
    page.context.set_offline(True)
    page.wait_for_timeout(5000)
    page.context.set_offline(False)
    finish(page, "The end.", 2)
    assert page.locator(".say.assistant").all_text_contents() == ["First answer.", f"Slow. {LONG} The end."]
    open_page.complaints.clear()  # Chromium tells about the requests that had no network


def add_turns(live, session, count):
    """As if they had been sent one after the other, which would take minutes."""
    rows = []
    for number in range(count):
        for role, word in (("user", "Question"), ("assistant", "Answer")):
            rows.append(
                (secrets.token_hex(16), 3 + len(rows), role, f'[{{"type": "text", "text": "{word} {number}."}}]')
            )
    with closing(sqlite3.connect(live.data_dir / "muster.sqlite3", timeout=60)) as database, database:
        own = ("id", "seq", "role", "content")
        columns = [row[1] for row in database.execute("PRAGMA table_info(runs_message)")]
        copied = ", ".join(name for name in columns if name not in (*own, "run_id"))
        database.executemany(
            f"INSERT INTO runs_message ({', '.join(own)}, {copied}) SELECT ?, ?, ?, ?, {copied}"  # noqa: S608  (our names)
            f" FROM runs_message WHERE session_id = '{session}' AND seq = 2",
            rows,
        )
        database.execute("UPDATE runs_session SET last_seq = ? WHERE id = ?", (2 + len(rows), session))


def test_a_long_conversation_is_read_from_its_beginning(open_page, agent, model, live):
    page = begin(open_page, agent, model)
    session = re.search(r"session=([\w-]+)", page.url).group(1)
    add_turns(live, session.replace("-", ""), TURNS)
    page.reload()
    page.locator(".say.assistant", has_text=f"Answer {TURNS - 1}.").wait_for()
    assert page.locator(".say.user", has_text="First").count() == 0
    assert serious(page) == []
    page.locator(".turn").first.scroll_into_view_if_needed()
    page.get_by_role("link", name="Earlier messages").click()
    page.locator(".say.user", has_text="First").wait_for(state="attached")
    expected = ["First", *(f"Question {number}." for number in range(TURNS))]
    assert page.locator(".say.user").all_text_contents() == expected
    assert page.get_by_role("link", name="Earlier messages").count() == 0
    page.goto(f"/playground/?session={session}#message-1")
    page.reload()
    page.locator("#message-1").wait_for()
    assert page.evaluate("document.getElementById('message-1').getBoundingClientRect().top >= 0")


def test_each_text_stands_in_its_direction(open_page, agent, model):
    model.script(says("مرحبا\n\n- عنصر\n\nHello again\n\n```\nx = 1\n```"))
    page = open_page(f"/playground/?agent={agent}")
    page.fill("#text", "שלום עולם")
    assert direction(page, "#text") == "rtl"
    page.keyboard.press("Enter")
    finish(page, "Hello again", 1)
    for _ in range(2):
        assert direction(page, ".say.user") == "rtl"
        assert direction(page, ".say.assistant ul") == "rtl"
        assert direction(page, ".say.assistant p:first-child") == "rtl"
        assert direction(page, ".say.assistant p:has-text('Hello again')") == "ltr"
        assert direction(page, ".say.assistant pre") == "ltr"
        page.reload()
        page.locator(".say.assistant ul").wait_for()
    picture(page, "chat-right-to-left")


def direction(page, selector):
    return page.locator(selector).first.evaluate("(element) => getComputedStyle(element).direction")


def test_a_pasted_picture_is_shown_before_and_after_it_is_sent(open_page, agent, model):
    model.script(says("A square."))
    page = open_page(f"/playground/?agent={agent}")
    page.locator("[data-send]:enabled").wait_for()
    page.evaluate(PASTED)
    page.locator(".attached li:not([aria-busy]) img").wait_for()
    assert is_drawn(page, ".attached img")
    page.focus("#text")
    send(page, "What is it?")
    finish(page, "A square.", 1)
    assert is_drawn(page, ".say.user img")
    page.reload()
    page.locator(".say.user img").wait_for()
    assert is_drawn(page, ".say.user img")


def is_drawn(page, selector):
    return page.locator(selector).first.evaluate(
        "async (image) => { await image.decode(); return image.naturalWidth === 40; }"
    )


def test_the_enter_of_an_input_method_sends_nothing(open_page, agent, model):
    page = begin(open_page, agent, model)
    page.fill("#text", "にほんご")
    assert page.locator("#text").evaluate(COMPOSED) == [True, True], "the input method keeps its key"
    page.wait_for_timeout(300)
    assert page.locator(".say.user").all_text_contents() == ["First"]
    assert page.input_value("#text") == "にほんご"


def test_the_enter_of_an_input_method_names_and_tries_nothing(open_page, agent, model):
    page = begin(open_page, agent, model)
    page.reload()
    choose_for_item(page, "First", "Rename")
    field = page.get_by_role("textbox", name="Title")
    field.fill("にほんご")
    assert field.evaluate(COMPOSED) == [True, True]
    assert field.input_value() == "にほんご", "it is still being written"
    page.goto(f"/agents/{agent}/")
    page.fill("#text", "にほんご")
    assert page.locator("#text").evaluate(COMPOSED) == [True, True]
    assert page.input_value("#text") == "にほんご"
