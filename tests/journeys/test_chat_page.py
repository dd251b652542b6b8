"""The chat as people know it: a picker of agents, a list of conversations that changes at once, verbs as icons."""

import secrets

import pytest

from tests.fakes import says

from .browser import assert_inside_window, picture, serious, wait_on
from .chat import choose_for_item, create_agent, send

pytestmark = [pytest.mark.browser, pytest.mark.live, pytest.mark.usefixtures("nothing_left_to_say")]
WIDTHS = [1440, 1024, 390]
NOBODY = "019a0000-0000-7000-8000-000000000000"
TASKS = "## To do\n\n- [x] Weigh the box\n- [ ] Send the **box**\n"


@pytest.fixture(scope="module")
def agent(live, model):
    name = f"scribe-{secrets.token_hex(3)}"
    fields = {"display_name": "Schreibstube für Köln", "icon": "S", "description": "Writes.", "examples": ["A letter"]}
    return create_agent(live, model, name, **fields)


def window(width, height=800):
    return {"viewport": {"width": width, "height": height}, "color_scheme": "light", "locale": "en-US"}


@pytest.mark.parametrize("width", WIDTHS)
def test_what_opens_in_the_chat_lies_inside_the_window(width, open_page, agent, model):
    model.script(says("Written."))
    page = open_page(f"/playground/?agent={agent}", window(width))
    page.get_by_role("button", name="A letter", exact=True).click()
    page.locator(".say.assistant", has_text="Written.").wait_for()

    page.locator(".agent-button").click()
    assert_inside_window(page, "#agent-picker")
    assert_inside_window(page, "#agent-search")
    assert serious(page) == []
    picture(page, f"chat-picker-{width}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More").click()
    assert_inside_window(page, "#chat-menu")
    page.keyboard.press("Escape")
    if width < 992:
        page.get_by_role("button", name="Conversations").click()
        assert_inside_window(page, "#history")
    item = page.locator("#history li:has([aria-current])")
    item.get_by_role("button", name="What to do with").click()
    assert_inside_window(page, "#item-menu")
    picture(page, f"chat-item-menu-{width}")
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_cards_of_an_empty_chat_are_seen_from_the_first_one_on(open_page, agent):
    page = open_page("/playground/", window(390, 600))
    page.locator("[data-send]:enabled").wait_for()
    assert_inside_window(page, ".hello strong")
    assert_inside_window(page, ".agent-card")


def test_the_head_of_a_phone_is_one_row(open_page, agent):
    page = open_page(f"/playground/?agent={agent}", window(390))
    page.locator(".agent-button", has_text="Schreibstube").wait_for()
    assert page.locator(".head").bounding_box()["height"] < 60


def test_an_agent_is_found_by_its_display_name_and_its_exact_name_comes_first(open_page, agent):
    page = open_page("/playground/", window(1440))
    page.get_by_role("link", name="Schreibstube für Köln").wait_for()
    page.locator(".agent-button").click()
    page.locator("#agent-search").fill("schreibstube für")
    assert page.locator("#agent-options [aria-selected=true]").get_attribute("data-name") == agent
    page.locator("#agent-search").fill(agent)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/playground/?agent={agent}")
    page.locator(".hello strong", has_text="Schreibstube für Köln").wait_for()


def test_the_list_changes_at_once_without_another_page(open_page, agent, model):
    model.script(says("One."), says("Two."))
    page = open_page(f"/playground/?agent={agent}", window(1440))
    older, newer = (f"Talk {secrets.token_hex(4)}" for _ in range(2))
    for title in (older, newer):
        page.goto(f"/playground/?agent={agent}")
        send(page, title)
        page.locator("#conversations [aria-current]", has_text=title).wait_for()
        page.locator(".facts-line").wait_for()
    page.evaluate("window.isSamePage = true")

    choose_for_item(page, older, "Pin")
    page.locator("#conversations li[data-pinned=yes]", has_text=older).wait_for()
    assert older in page.locator("#conversations li").first.inner_text()
    choose_for_item(page, older, "Unpin")
    page.locator("#conversations li[data-pinned=no]", has_text=older).wait_for()
    titles = page.locator("#conversations a").all_text_contents()
    assert titles.index(newer) < titles.index(older)

    folder = f"papers-{secrets.token_hex(3)}"
    choose_for_item(page, older, "Move")
    page.get_by_role("combobox", name="Folder").fill(folder)
    page.keyboard.press("Enter")
    page.locator("details[data-folder]", has_text=folder).get_by_role("link", name=older).wait_for()

    page.fill("#find", newer)
    wait_on(page, lambda: page.locator("#history .lists li").count() == 1)
    page.on("dialog", lambda dialog: dialog.accept())
    page.fill("#find", older)
    page.locator("#history .lists li", has_text=older).wait_for()
    wait_on(page, lambda: page.locator("#history .lists li").count() == 1)
    choose_for_item(page, older, "Delete")
    page.locator("#history .lists li", has_text=older).wait_for(state="detached")
    assert page.evaluate("window.isSamePage") is True


def test_an_answer_is_copied_whole_and_its_tasks_are_boxes(open_page, agent, model):
    model.script(says(TASKS))
    page = open_page(f"/playground/?agent={agent}", window(1440))
    send(page, "What is to do?")
    page.locator(".facts-line").wait_for()
    boxes = page.locator(".say.assistant li.task input")
    assert [box.is_checked() for box in boxes.all()] == [True, False]
    assert serious(page) == []
    picture(page, "chat-tasks")
    page.get_by_role("button", name="Copy the answer").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.focus("#text")
    page.keyboard.press("Control+v")
    assert page.input_value("#text").strip() == TASKS.strip()


def test_a_stopped_answer_is_no_error(open_page, agent, model):
    model.script(says(" ".join(f"word{number}" for number in range(60)), pause_s=0.3))
    page = open_page(f"/playground/?agent={agent}", window(1440))
    send(page, "Much, please")
    page.locator(".say.assistant.live", has_text="word0 word1").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()
    assert page.locator(".note.error").count() == 0


def test_a_conversation_that_is_read_later_is_formatted(open_page, agent, model):
    model.script(says(TASKS))
    page = open_page(f"/playground/?agent={agent}", window(1024))
    send(page, "What is to do?")
    page.locator(".facts-line").wait_for()
    session = page.url.split("session=")[1]
    page.goto(f"/sessions/{session}/")
    page.locator(".say.assistant strong", has_text="box").wait_for()
    assert page.locator(".say.assistant li.task input").count() == 2
    assert serious(page) == []


def test_a_message_that_no_worker_takes_says_so(open_page, agent):
    page = open_page(f"/playground/?agent={agent}", window(1024))
    stream = {"Content-Type": "text/event-stream", "Muster-Run": NOBODY, "Muster-Session": NOBODY}
    page.route("**/messages", lambda route: route.fulfill(headers=stream, body=": waits\n\n"))
    page.route("**/stream", lambda route: route.fulfill(headers=stream, body=": waits\n\n"))
    page.route("**/status", lambda route: route.fulfill(json={"notice": "", "has_worker": False}))
    send(page, "Is anybody there?")
    page.get_by_text("No worker is running").wait_for()
    page.route("**/status", lambda route: route.fulfill(json={"notice": "", "has_worker": True}))
    page.get_by_text("Waiting for a free worker").wait_for()
