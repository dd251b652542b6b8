"""A conversation on the page: slow answers, reloads in the middle, branches, long texts."""

import secrets

import pytest

from tests.fakes import calls, says
from tests.live import wait_for

from .browser import DESKTOP, PHONE, assert_inside_window, picture, serious, wait_on
from .chat import choose_for_item, create_agent, send

pytestmark = [pytest.mark.browser, pytest.mark.live, pytest.mark.usefixtures("nothing_left_to_say")]
SOURCE = 'def weigh(thing: str) -> str:\n    """Weigh a thing."""\n    return f"{thing}: 3 kg"\n'
LONG = " ".join(f"word{number}" for number in range(30))
FORMATTED = """## Result

| thing | weight |
|:--|--:|
| box | 3 kg |

```python
def weigh(thing: str) -> int:
    return 3  # kilograms
```

The sum is $\\frac{1}{2} + x^2$, and <b>this</b> stays text. ![picture](https://example.com/steal?a=b)
"""


@pytest.fixture(scope="module")
def agents(live, model):
    """Two agents of a scripted model: one just weighs, one asks before it does."""
    word = secrets.token_hex(3)
    post = live.http.post
    post("/api/v1/functions/", json={"name": f"weigh-{word}", "source": SOURCE}).raise_for_status()
    post(f"/api/v1/functions/weigh-{word}/publish", json={}).raise_for_status()
    names = {}
    for mode in ("allow", "ask"):
        grants = [{"tool": f"weigh-{word}", "mode": mode}]
        names[mode] = create_agent(live, model, f"scales-{mode}-{word}", grants=grants)
    return {**names, "tool": f"weigh-{word}"}


def test_enter_before_the_scripts_have_loaded_sends_the_message(open_page, agents, model):
    model.script(says("At once."))
    page = open_page("/account/")
    page.route("**/playground.js", lambda route: (page.wait_for_timeout(1500), route.continue_()))
    page.goto(f"/playground/?agent={agents['allow']}", wait_until="commit")
    page.fill("#text", "hello")
    page.keyboard.press("Enter")
    page.locator(".say.assistant", has_text="At once.").wait_for()
    assert page.locator(".say.user").count() == 1


@pytest.mark.firefox
def test_a_reload_in_the_middle_of_an_answer_goes_on_where_it_was(open_page, agents, model):
    weigh = calls((agents["tool"], {"thing": "box"}))
    model.script(weigh, says(f"It weighs 👩‍👩‍👧 🎉 three kilograms. {LONG} The end.", pause_s=0.15))
    page = open_page(f"/playground/?agent={agents['allow']}")
    send(page, "How heavy is the box?")
    page.locator(".say.assistant.live", has_text="👩‍👩‍👧 🎉 three kilograms. word0 word1").wait_for()
    page.reload()
    page.locator(".say.assistant.live", has_text="three kilograms. word0 word1").wait_for()
    assert page.locator(".say.user").all_text_contents() == ["How heavy is the box?"]
    page.locator("details.call", has_text="ok").wait_for()
    picture(page, "chat-reloaded-in-the-middle")
    page.locator(".facts-line", has_text="succeeded").wait_for()
    assert page.locator(".say.assistant").all_text_contents() == [
        f"It weighs 👩‍👩‍👧 🎉 three kilograms. {LONG} The end."
    ]
    page.reload()
    page.locator("details.call", has_text="ok").locator("summary").click()
    page.locator("details.call pre", has_text="box: 3 kg").wait_for()
    assert page.locator(".say.assistant").count() == 1
    assert serious(page) == []
    page.get_by_role("link", name="Run page").click()
    page.locator(".fall summary", has_text="stub").last.wait_for()
    took = page.locator(".fall summary", has_text="stub").last.locator(".took").inner_text()
    assert float(took.split()[0]) >= 4, took  # thirty pauses
    left, width = (float(page.locator(".fall .bar.model").last.get_attribute(name)) for name in ("x", "width"))
    assert width > 500 and left + width > 900, (left, width)
    picture(page, "chat-waterfall")


@pytest.mark.firefox
def test_an_approval_stays_after_a_reload_and_is_decided_there(open_page, agents, model):
    model.script(calls((agents["tool"], {"thing": "crate"})), says("A crate weighs 3 kg."))
    page = open_page(f"/playground/?agent={agents['ask']}")
    send(page, "How heavy is the crate?")
    page.locator(".ask").wait_for()
    page.reload()
    page.locator("details.call", has_text="waiting").wait_for()
    assert "crate" in page.locator(".ask textarea").input_value()
    assert serious(page) == []
    picture(page, "chat-approval-after-reload")
    page.get_by_label("Note").fill("Weighed before.")
    page.get_by_role("button", name="Approve").click()
    page.locator(".say.assistant", has_text="A crate weighs 3 kg.").wait_for()
    page.locator(".ask.decided", has_text="approved by admin. Weighed before.").wait_for()
    page.reload()
    page.locator(".ask.decided", has_text="approved by admin. Weighed before.").wait_for()
    page.locator("details.call", has_text="ok").wait_for()


def test_an_edited_first_message_starts_a_branch_and_the_old_one_can_be_switched_to(open_page, agents, model):
    model.script(says("One."), says("Two."), says("Other."))
    page = open_page(f"/playground/?agent={agents['allow']}")
    for text, answer in (("First", "One."), ("Second", "Two.")):
        send(page, text)
        page.locator(".say.assistant", has_text=answer).wait_for()
        page.locator("[data-send]:enabled").wait_for()
    page.get_by_role("button", name="Edit").first.click()
    assert page.locator(".say.user").count() == 2, "nothing is hidden before it is sent"
    send(page, "Changed")
    page.locator(".say.assistant", has_text="Other.").wait_for()
    page.locator(".facts-line").wait_for()
    page.reload()
    page.get_by_text("2 of 2").wait_for()
    assert page.locator(".say.user").all_text_contents() == ["Changed"]
    picture(page, "chat-branches")
    page.get_by_role("link", name="Earlier branch").click()
    page.get_by_text("1 of 2").wait_for()
    assert page.locator(".say.user").all_text_contents() == ["First", "Second"]
    assert page.locator(".say.assistant").all_text_contents() == ["One.", "Two."]


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_the_last_line_is_in_view(device, open_page, agents, model, request):
    """While an answer grows, after a reload of a long conversation, and above the composer."""
    model.script(*[says("\n\n".join(f"Paragraph {number}." for number in range(40))) for _ in range(2)])
    page = open_page(f"/playground/?agent={agents['allow']}", device)
    for count in (1, 2):
        send(page, "Much, please")
        page.locator(".facts-line").nth(count - 1).wait_for()
        assert is_seen(page), picture(page, "chat-last-line-missing")
    page.reload()
    page.locator(".facts-line").nth(1).wait_for()
    wait_on(page, lambda: is_seen(page))
    assert serious(page) == []
    picture(page, f"chat-long-{request.node.callspec.id}")


def is_seen(page):
    """Whether the last line is inside the window and not below the composer."""
    return page.evaluate("""async () => {
        const isSeen = () => {
            const line = [...document.querySelectorAll(".facts-line")].at(-1).getBoundingClientRect();
            const composer = document.getElementById("composer").getBoundingClientRect();
            return line.top >= 0 && line.bottom <= composer.top && composer.bottom <= innerHeight + 1;
        };
        for (let again = 0; again < 20 && !isSeen(); again += 1) await new Promise((done) => setTimeout(done, 150));
        await new Promise((done) => setTimeout(done, 150));
        return isSeen();
    }""")


@pytest.mark.firefox
def test_a_reply_is_formatted_and_fetches_nothing(open_page, agents, model):
    model.script(says(FORMATTED))
    page = open_page(f"/playground/?agent={agents['allow']}")
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    send(page, "A table, please")
    page.locator(".say.assistant table td.align-right", has_text="3 kg").wait_for()
    page.locator(".say.assistant .hljs-keyword", has_text="def").wait_for()
    page.locator(".say.assistant math mfrac").wait_for()
    assert page.locator(".say.assistant b, .say.assistant img").count() == 0
    assert not [url for url in asked if "example.com" in url]
    page.locator(".code-block").get_by_role("button", name="Copy").click()
    wait_for(lambda: "return 3" in pasted(page))
    assert serious(page) == []
    picture(page, "chat-formatted")


def pasted(page):
    """What the clipboard holds; only a paste is allowed to read it in Firefox."""
    page.fill("#text", "")
    page.focus("#text")
    page.keyboard.press("Control+v")
    return page.input_value("#text")


def test_conversations_are_listed_renamed_pinned_and_deleted_and_an_answer_is_rated(open_page, agents, model, live):
    model.script(says("Three kilograms."))
    word = f"Weigh {secrets.token_hex(4)}"
    page = open_page(f"/playground/?agent={agents['allow']}")
    send(page, word)
    page.locator(".facts-line").wait_for()
    page.locator("#conversations [aria-current]", has_text=word).wait_for()
    page.get_by_role("button", name="Bad").click()
    page.get_by_label("Note on the rating").fill("Not weighed.")
    page.get_by_role("button", name="Save note").click()
    page.get_by_role("button", name="Save note").wait_for(state="hidden")
    page.reload()
    assert page.get_by_label("Note on the rating").input_value() == "Not weighed."
    assert serious(page) == []
    picture(page, "chat-history")
    choose_for_item(page, word, "Pin")
    page.locator("#conversations li[data-pinned=yes]", has_text=word).wait_for()
    choose_for_item(page, word, "Rename")
    page.get_by_label("Title", exact=True).locator("visible=true").fill(f"{word} again")
    page.keyboard.press("Enter")
    page.locator("#conversations a", has_text=f"{word} again").wait_for()
    page.set_viewport_size(PHONE["viewport"])
    page.get_by_role("button", name="Conversations").click()
    page.locator("#conversations a", has_text=f"{word} again").wait_for()
    assert_inside_window(page, "#history")
    assert serious(page) == []
    picture(page, "chat-history-phone")
    page.fill("#find", f"{word} again")
    wait_on(page, lambda: page.locator("#history .lists li").count() == 1)
    page.on("dialog", lambda dialog: dialog.accept())
    choose_for_item(page, word, "Delete")
    page.locator("#history li", has_text=word).wait_for(state="detached")


@pytest.mark.firefox
def test_stop_ends_the_run_in_the_middle_and_keeps_what_came(open_page, agents, model, live):
    model.script(says(f"It weighs three kilograms. {LONG} The end.", pause_s=0.3))
    page = open_page(f"/playground/?agent={agents['allow']}")
    send(page, "How heavy is the box?")
    page.locator(".say.assistant.live", has_text="word0 word1").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".facts-line", has_text="cancelled").wait_for()
    kept = page.locator(".say.assistant").inner_text()
    assert "word0 word1" in kept and "The end." not in kept
    page.locator("[data-send]:enabled").wait_for()
    assert page.get_by_role("button", name="Stop").count() == 0
    run = live.http.get(f"/api/v1/runs/?agent={agents['allow']}&limit=1").json()["results"][0]
    assert run["status"] == "cancelled"
    page.reload()
    page.locator(".facts-line", has_text="cancelled").wait_for()
    assert "word0 word1" in page.locator(".say.assistant").inner_text()
    model.script(says("Four kilograms."))
    send(page, "And the crate?")
    page.locator(".say.assistant", has_text="Four kilograms.").wait_for()


def test_a_message_that_the_server_did_not_take_is_back_in_the_field(open_page, agents, model):
    model.script(says("Got it."))
    page = open_page(f"/playground/?agent={agents['allow']}")
    page.route("**/messages", lambda route: route.abort())
    send(page, "A long thought")
    page.get_by_text("The server did not answer.").wait_for()
    assert page.locator("#text").input_value() == "A long thought" and page.locator(".say.user").count() == 0
    page.unroute("**/messages")
    page.get_by_role("button", name="Send").click()
    page.locator(".say.assistant", has_text="Got it.").wait_for()
    page.get_by_role("group", name="You").get_by_text("A long thought").wait_for()
    open_page.complaints.clear()  # Chromium reports the request that was cut


def test_a_message_whose_answer_was_lost_is_sent_again_as_the_same(open_page, agents, model):
    model.script(says("Got it."))
    page = open_page(f"/playground/?agent={agents['allow']}")
    page.route("**/messages", lambda route: (route.fetch(), route.abort()))
    send(page, "A long thought")
    page.get_by_text("The server did not answer.").wait_for()
    page.unroute("**/messages")
    page.get_by_role("button", name="Send").click()
    page.locator(".say.assistant", has_text="Got it.").wait_for()
    page.reload()
    page.locator(".say.assistant", has_text="Got it.").wait_for()
    assert page.locator(".say.user").count() == 1
    open_page.complaints.clear()  # Chromium reports the request that was cut


def test_a_card_that_somebody_else_decides_has_no_buttons(open_page, agents, model):
    model.script(calls((agents["tool"], {"thing": "crate"})), says("Never."))
    page = open_page(f"/playground/?agent={agents['ask']}")

    def for_others(route):
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "may_decide": False})

    page.route("**/api/v1/approvals/*", for_others)
    send(page, "How heavy is the crate?")
    page.locator(".ask").get_by_text("Somebody else decides this.").wait_for()
    assert page.locator(".ask button, .ask input").count() == 0
    page.get_by_text(f"Why you are asked: “{agents['tool']}” is set to ask before every call.").wait_for()
    page.get_by_role("link", name="See who").click()
    page.locator(".card", has_text="crate").get_by_role("button", name="Deny").click()


def test_a_link_is_copied_without_https(open_page, agents, model):
    """Browsers offer their clipboard only with https; a site in a home network has none."""
    model.script(says("One."))
    page = open_page(f"/playground/?agent={agents['allow']}")
    page.context.add_init_script("delete Navigator.prototype.clipboard")
    page.reload()
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Copy as code").click()
    dialog = page.get_by_role("dialog")
    assert_inside_window(page, "dialog[open]")
    dialog.get_by_role("button", name="Copy").first.click()
    dialog.get_by_role("button", name="Copied").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page.locator("#text").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#text").input_value().startswith("curl ")
