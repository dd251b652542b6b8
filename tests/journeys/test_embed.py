"""An agent on somebody's web site, in a real browser: a page of another origin with a strict content security policy."""

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fakes import StubOpenAI, says

from .browser import AXE, DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]
HOSTILE = (
    "**Bold** <img src=x onerror='window.broken=1'> [a](javascript:window.broken=1) ![b](https://evil.example/?q=1) "
    "[docs](https://example.org/docs)\n\n- one\n- two\n\n```\n<script>window.broken=1</script>\n```"
)


class Host:
    """A web site with the line of the embed in its page, and no exception for it but the server's origin."""

    def __init__(self):
        host = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path != "/":
                    self.send_response(204)
                    self.end_headers()
                    return
                policy = (
                    f"default-src 'none'; script-src {host.server}; connect-src {host.server}; frame-src {host.server}"
                )
                body = f"<!doctype html><html lang=en><title>Shop</title><main><h1>Shop</h1>{host.body}</main></html>"
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Security-Policy", policy)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *words):
                pass

        self.server = self.body = ""
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def hosts():
    made = [Host(), Host()]
    yield made
    for host in made:
        host.http.shutdown()


@pytest.fixture(scope="module")
def model():
    with StubOpenAI() as stub:
        yield stub


@pytest.fixture(scope="module")
def embed(live, hosts, model):
    post = live.http.post
    clerk = f"embed-clerk-{secrets.token_hex(3)}"
    provider = {"name": clerk, "kind": "openai-compatible", "base_url": model.url, "api_key": "sk-stub"}
    post("/api/v1/providers/", json=provider).raise_for_status()
    agent = {"name": clerk, "provider": clerk, "model_name": "stub"}
    post("/api/v1/agents/", json=agent).raise_for_status()
    post(f"/api/v1/agents/{clerk}/publish", json={}).raise_for_status()
    about = {
        "agent": clerk, "enabled": True, "title": "Ask the shop", "greeting": "How can we help?",
        "suggestions": ["When do you open?"], "origins": [hosts[0].url], "per_visitor": 60, "daily_cost": None,
    }  # fmt: skip
    made = post("/api/v1/embeds/", json=about)
    made.raise_for_status()
    for host in hosts:
        host.server = live.url
        host.body = f'<script src="{live.url}/embed.js" data-key="{made.json()["key"]}" async></script>'
    return made.json()


@pytest.fixture
def visit(browser, embed):
    """`visit(url, PHONE)`: a page in a browser without any login; errors in its console fail the test."""
    contexts, complaints = [], []

    def visit(url, device=DESKTOP):
        context = browser.new_context(**device)
        contexts.append(context)
        context.add_init_script(path=AXE)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: None if is_about_icon(error) else complaints.append(str(error)))
        page.goto(url)
        return page

    visit.complaints = complaints
    yield visit
    for context in contexts:
        assert context.cookies() == []
        context.close()
    assert [one for one in complaints if "style" not in one or "nline" not in one] == []


def is_about_icon(error):
    """Firefox reports that the web site's own policy refuses the web site's own icon; that is not the embed's."""
    return "/favicon.ico because it violates" in str(error)


def said(page):
    return [one.strip() for one in page.locator(".say").all_inner_texts()]


def ask(page, text):
    page.get_by_label("Write a message").fill(text)
    page.keyboard.press("Enter")


def ended(page):
    page.get_by_role("button", name="Send").wait_for()


@pytest.mark.firefox
def test_a_visitor_talks_to_the_agent_by_keyboard(visit, hosts, model):
    model.script(says(HOSTILE), says("We open at nine.", pause_s=0.2))
    page = visit(hosts[0].url)
    opener = page.get_by_role("button", name="Open the chat")
    opener.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Ask the shop").wait_for()
    assert serious(page) == []
    ask(page, "<b>Hello</b>")
    page.locator(".say.assistant strong").get_by_text("Bold").wait_for()
    ended(page)
    assert page.evaluate("window.broken") is None and page.locator(".panel img, .panel script").count() == 0
    links = page.locator(".say a")
    assert links.count() == 1 and links.get_attribute("href") == "https://example.org/docs"
    assert page.locator(".say.user b").count() == 0 and page.locator(".say li").count() == 2
    assert serious(page) == []
    picture(page, "embed-desktop-light")
    page.reload()
    page.get_by_role("button", name="Open the chat").click()
    page.locator(".say.assistant strong").wait_for()
    ask(page, "When do you open?")
    page.get_by_text("We open").wait_for()
    page.reload()  # in the middle of the reply
    page.get_by_role("button", name="Open the chat").click()
    page.get_by_text("We open at nine.").wait_for()
    ended(page)
    assert sum("We open at nine." in text for text in said(page)) == 1
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelector('body > div').shadowRoot.activeElement.className") == "open"


def test_stop_retry_and_a_new_conversation(visit, hosts, model):
    page = visit(hosts[0].url, PHONE)
    page.get_by_role("button", name="Open the chat").click()
    model.script(says("one two three four five six seven eight", pause_s=0.5))
    page.get_by_role("button", name="When do you open?").click()
    page.get_by_text("one two").wait_for()
    picture(page, "embed-phone-dark")
    box = page.locator(".panel").bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, 390)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("status").get_by_text("Stopped.").wait_for()
    model.script(*[says("", status=400)] * 4)
    ask(page, "Again?")
    page.get_by_role("alert").get_by_text("Something went wrong").wait_for()
    assert serious(page) == []
    model.turns.clear()
    model.script(says("Now it works."))
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Now it works.").wait_for()
    ended(page)
    page.reload()
    page.get_by_role("button", name="Open the chat").click()
    page.get_by_text("Now it works.").wait_for()
    assert sum("Again?" in text for text in said(page)) == 1
    page.get_by_role("button", name="New conversation").click()
    assert [text.splitlines()[-1] for text in said(page)] == ["How can we help?"]


def test_a_page_that_is_not_listed_shows_no_chat(visit, hosts):
    page = visit(hosts[1].url)
    with page.expect_console_message(lambda one: "The chat is not available" in one.text):
        page.reload()
    assert page.get_by_role("button", name="Open the chat").count() == 0
    refused = [one for one in visit.complaints if "CORS" in one or "ERR_FAILED" in one or "403" in one]
    assert refused and set(refused) == set(visit.complaints)
    visit.complaints.clear()


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_the_public_page(visit, embed, live, model, device, request):
    model.script(says("Hello from the **page**."))
    page = visit(f"{live.url}/chat/{embed['key']}/", device)
    page.get_by_text("How can we help?").wait_for()
    ask(page, "Hello")
    page.locator(".say strong").wait_for()
    ended(page)
    assert serious(page) == []
    picture(page, f"embed-page-{request.node.callspec.id}")


def test_a_public_page_whose_server_is_away_says_so(visit, embed, live):
    page = visit("about:blank")
    page.route("**/embed/v1/**", lambda route: route.abort())
    page.goto(f"{live.url}/chat/{embed['key']}/")
    page.get_by_role("alert").get_by_text("The chat does not answer at the moment.").wait_for()
    assert serious(page) == []
    page.unroute("**/embed/v1/**")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("How can we help?").wait_for()
    visit.complaints.clear()


def test_a_conversation_that_cannot_be_read_is_asked_for_again(visit, embed, live, model):
    model.script(says("Nine o'clock."))
    page = visit(f"{live.url}/chat/{embed['key']}/")
    ask(page, "When?")
    page.get_by_text("Nine o'clock.").wait_for()
    ended(page)
    page.route("**/messages", lambda route: route.abort())
    page.reload()
    page.get_by_role("alert").wait_for()
    page.unroute("**/messages")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Nine o'clock.").wait_for()
    assert len(said(page)) == 3, "the greeting, the question and the answer, each once"
    visit.complaints.clear()


def test_only_a_listed_origin_frames_the_page(visit, embed, live, hosts):
    for host, is_shown in zip(hosts, (True, False), strict=True):
        script, host.body = host.body, f'<iframe title="Chat" src="{live.url}/chat/{embed["key"]}/"></iframe>'
        page = visit(host.url)
        frame = page.frame_locator("iframe")
        if is_shown:
            frame.get_by_text("How can we help?").wait_for()
        else:
            page.wait_for_load_state("networkidle")
            assert frame.get_by_text("How can we help?").count() == 0
            visit.complaints.clear()
        host.body = script
