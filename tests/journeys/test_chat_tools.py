"""What a person does in the chat beside talking: files, prompts, questions, folders, links, notices."""

import base64
import secrets

import httpx2
import pytest

from tests.fakes import calls, says

from .browser import DESKTOP, PHONE, needs_chromium, picture, serious, wait_on
from .chat import choose_for_item, create_agent

pytestmark = [pytest.mark.browser, pytest.mark.live]
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FIELDS = {"city": {"type": "string"}, "nights": {"type": "integer"}}


@pytest.fixture(scope="module")
def agent(live, model):
    """An agent of a scripted model that may ask its person."""
    grants = [{"tool": "ask_user", "mode": "allow"}]
    return create_agent(live, model, f"porter-{secrets.token_hex(3)}", grants=grants)


HANDED = """([kind, name, types]) => {
  const data = new DataTransfer();
  data.items.add(new File(["Quiet."], name, { type: "text/plain" }));
  for (const type of types) data.setData(type, "words");
  const event = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
    : new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
  return !document.querySelector(kind === "paste" ? "#text" : "#talk").dispatchEvent(event);
}"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_files_are_dropped_beside_the_composer_and_pasted(language, open_page, agent, model):
    model.turns.clear()
    model.script(says("Read."))
    page = open_page(f"/playground/?agent={agent}", locale=language)
    sign, attached = page.locator("[data-drop]"), page.locator(".attached li:not([aria-busy])")
    page.locator("[data-send]:enabled").wait_for()
    assert page.evaluate(HANDED, ["dragover", "wishes.txt", []]), "the browser would open the file"
    sign.wait_for()
    picture(page, f"chat-drop-{language}")
    assert page.evaluate(HANDED, ["drop", "wishes.txt", []])
    attached.filter(has_text="wishes.txt").wait_for()
    assert sign.is_hidden()
    assert page.evaluate(HANDED, ["paste", "picture.txt", []])
    attached.filter(has_text="picture.txt").wait_for()
    assert not page.evaluate(HANDED, ["paste", "cells.txt", ["text/plain", "text/html"]]), "cells of a table are words"
    assert attached.count() == 2
    page.keyboard.press("Enter")
    page.locator(".say.assistant", has_text="Read.").wait_for()
    assert page.locator(".attached li").count() == 0
    facts = page.locator(".facts-line")
    facts.filter(has_text="erfolgreich" if language == "de" else "succeeded").wait_for()


def test_a_saved_prompt_a_file_and_another_answer(open_page, agent, model, live):
    name = f"stay-{secrets.token_hex(3)}"
    live.http.post("/api/v1/prompts/", json={"name": name, "text": "A hotel in {{city}}, please."}).raise_for_status()
    model.turns.clear()
    model.script(says("Here is one."), says("Here is another."))
    page = open_page(f"/playground/?agent={agent}")
    page.locator("#attach").set_input_files({"name": "wishes.txt", "mimeType": "text/plain", "buffer": b"Quiet."})
    page.locator(".attached li:not([aria-busy])", has_text="wishes.txt").wait_for()
    page.locator("#text").press_sequentially(f"/{name[:8]}")
    page.get_by_role("option", name=name).wait_for()
    picture(page, "chat-prompts")
    assert serious(page) == []
    page.keyboard.press("Enter")
    page.get_by_label("city").fill("Oslo")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('text').value == 'A hotel in Oslo, please.'")
    page.keyboard.press("Enter")
    page.locator(".facts-line", has_text="succeeded").wait_for()
    page.get_by_role("button", name="Regenerate").click()
    page.locator(".say.assistant", has_text="Here is another.").wait_for()
    page.locator("[data-send]:enabled").wait_for()
    page.reload()
    page.get_by_text("2 of 2").wait_for()
    session = page.url.split("session=")[1]
    [user] = [
        one for one in live.http.get(f"/api/v1/sessions/{session}/messages/").json()["results"] if one["role"] == "user"
    ]
    assert user["text"] == "A hotel in Oslo, please." and user["content"][1]["type"] == "file"


DRAWN = "one => one.complete && one.naturalWidth > 0"


@pytest.mark.firefox
def test_an_attached_picture_is_a_preview_that_opens_and_stays_when_the_message_is_edited(open_page, agent, model):
    model.turns.clear()
    model.script(says("A dot."), says("Still a dot."))
    page = open_page(f"/playground/?agent={agent}")
    page.locator("#attach").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": DOT})
    page.locator(".attached li:not([aria-busy]) img").wait_for()
    page.fill("#text", "What is it?")
    page.keyboard.press("Enter")
    page.locator(".facts-line", has_text="succeeded").wait_for()
    preview = page.get_by_role("img", name="dot.png")
    assert preview.evaluate(DRAWN)
    page.reload()
    preview.wait_for()
    assert preview.evaluate(DRAWN) and "[file]" not in page.locator(".say.user").inner_text()
    picture(page, "chat-picture")
    assert serious(page) == []
    link = page.get_by_role("link", name="dot.png")
    link.focus()
    with page.expect_popup() as opened:
        page.keyboard.press("Enter")
    opened.value.wait_for_url("**/preview")
    page.get_by_role("button", name="Edit").click()
    page.locator(".attached li", has_text="dot.png").wait_for()
    page.fill("#text", "And now?")
    page.keyboard.press("Enter")
    page.locator(".say.assistant", has_text="Still a dot.").wait_for()
    assert page.locator(".say.user img").count() == 1
    assert len(model.requests[-1]["messages"][-1]["content"]) == 2


@pytest.mark.firefox
def test_a_question_is_answered_in_the_chat_and_in_the_inbox(open_page, agent, model):
    model.turns.clear()
    ask = {"question": "Where, and for how long?", "fields": FIELDS}
    model.script(calls(("ask_user", ask)), says("Two nights in Oslo."), calls(("ask_user", {"question": "Sure?", "options": ["yes", "no"]})), says("Done."))  # fmt: skip
    page = open_page(f"/playground/?agent={agent}")
    page.fill("#text", "A hotel")
    page.keyboard.press("Enter")
    card = page.locator(".ask", has_text="Where, and for how long?")
    card.get_by_label("city").fill("Oslo")
    card.get_by_label("nights").fill("2")
    assert serious(page) == []
    picture(page, "chat-question")
    card.get_by_role("button", name="Answer", exact=True).click()
    page.locator(".say.assistant", has_text="Two nights in Oslo.").wait_for()
    page.locator("[data-send]:enabled").wait_for()
    page.fill("#text", "Book it")
    page.keyboard.press("Enter")
    page.locator(".ask", has_text="Sure?").wait_for()
    inbox = open_page("/approvals/", PHONE)
    card = inbox.locator(".ask", has_text="Sure?").first
    card.get_by_label("answer").select_option("yes")
    assert serious(inbox) == []
    picture(inbox, "approvals-question-phone")
    card.get_by_role("button", name="Answer", exact=True).click()
    page.locator(".say.assistant", has_text="Done.").wait_for()
    page.reload()
    page.locator(".ask.decided", has_text="Answered.").first.wait_for()


def test_a_conversation_is_moved_shared_and_read_by_a_stranger(open_page, agent, model, live, browser):
    model.turns.clear()
    model.script(says("It has **two** rooms."))
    word = secrets.token_hex(3)
    page = open_page(f"/playground/?agent={agent}")
    page.fill("#text", f"The house {word}")
    page.keyboard.press("Enter")
    page.locator("[data-again]").wait_for()
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Create the link").click()
    page.get_by_role("button", name="Stop sharing").wait_for()
    link = page.get_by_label("Link").input_value()
    picture(page, "chat-share")
    assert serious(page) == []
    path = "/" + link.split("/", 3)[3]
    context = browser.new_context(base_url=live.url, **DESKTOP)
    stranger = context.new_page()
    stranger.goto(path)
    stranger.locator(".say.assistant strong", has_text="two").wait_for()
    picture(stranger, "chat-shared")
    assert stranger.locator("form, input, button").count() == 0
    page.get_by_role("button", name="Stop sharing").click()
    page.get_by_role("button", name="Create the link").wait_for()
    assert httpx2.get(live.url + path).status_code == 404
    context.close()
    page.locator("#sharing").get_by_role("button", name="Close").click()
    page.reload()
    choose_for_item(page, f"The house {word}", "Move")
    page.get_by_label("Folder").fill(f"Houses {word}")
    page.keyboard.press("Enter")
    page.locator("summary", has_text=f"Houses {word}").wait_for()
    assert serious(page) == []
    picture(page, "chat-folders")


def test_a_conversation_in_the_studio_survives_a_reload(open_page, agent, model):
    model.turns.clear()
    model.script(says("Still here."))
    page = open_page(f"/agents/{agent}/")
    page.select_option("[data-with]", "live")
    page.locator(".try [data-send]:enabled").wait_for()
    page.fill(".try textarea", "Are you there?")
    page.keyboard.press("Enter")
    page.locator(".try .facts-line").wait_for()
    page.reload()
    page.select_option("[data-with]", "live")
    page.locator(".try .say.assistant", has_text="Still here.").wait_for()
    page.get_by_role("button", name="Start again").click()
    assert page.locator(".try .turn").count() == 0
    page.reload()
    page.select_option("[data-with]", "live")
    page.locator(".try [data-send]:enabled").wait_for()
    assert page.locator(".try .turn").count() == 0


def test_the_account_shows_notices(open_page):
    for device, name in ((DESKTOP, "desktop"), (PHONE, "phone")):
        page = open_page("/account/", device)
        page.get_by_role("heading", name="Notices").wait_for()
        assert serious(page) == []
        picture(page, f"account-{name}")
    picture(open_page("/prompts/", PHONE), "prompts-phone")


def test_the_worker_of_a_browser_shows_a_notice(open_page, browser):
    needs_chromium(browser, "only Chromium's own protocol delivers a push message without a push service")
    page = open_page("/account/", permissions=["notifications"])
    page.get_by_role("button", name="Notify me in this browser").wait_for()
    page.evaluate("navigator.serviceWorker.register('/static/muster/pushworker.js')")
    protocol = page.context.new_cdp_session(page)
    protocol.send("ServiceWorker.enable")
    page.wait_for_function(
        "navigator.serviceWorker.getRegistration('/static/muster/pushworker.js').then((one) => Boolean(one?.active))"
    )
    found = []
    protocol.on("ServiceWorker.workerRegistrationUpdated", lambda told: found.extend(told["registrations"]))
    protocol.send("ServiceWorker.disable")
    protocol.send("ServiceWorker.enable")
    wait_on(page, lambda: found)
    about = '{"title": "Approval needed: add", "body": "x", "url": "https://example.org/approvals/", "tag": "1"}'
    registration = found[-1]["registrationId"]
    protocol.send("ServiceWorker.deliverPushMessage", {"origin": page.url.rstrip("/").removesuffix("/account"), "registrationId": registration, "data": about})  # fmt: skip
    page.wait_for_function("""navigator.serviceWorker.getRegistration('/static/muster/pushworker.js')
        .then((one) => one.getNotifications()).then((all) => all.some((one) => one.title === 'Approval needed: add'))""")
