"""What people do on the pages, in a real browser, against a whole Muster."""

import gzip
import os
import secrets
import subprocess
import sys

import pytest

from tests.connectors.fake_mcp_login import FakeMcpLogin
from tests.live import wait_for
from tests.matrices import is_exhaustive

from .browser import DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]

LOAN = "loan payment principal 200000 yearly_rate 3.5 years 25"
SOURCE = '''def shout(text: str, times: int = 1) -> str:
    """Say it loud.

    Args:
        text: What to say.
    """
    print("said", times)
    return text.upper() * times
'''
WIDE = """() => [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth && !one.closest(".scroll")).map((one) => one.outerHTML.slice(0, 90))"""
PAGES = {
    "dashboard": "/", "start": "/start/", "playground": "/playground/", "compare": "/playground/?compare=1",
    "runs": "/runs/", "sessions": "/sessions/", "approvals": "/approvals/", "schedules": "/schedules/",
    "functions": "/functions/", "function-new": "/functions/new/",
    "function": "/functions/add_to_date/",
    "agents": "/agents/", "agent-new": "/agents/new/", "agent": "/agents/careful-helper/",
    "audit": "/audit/", "chains": "/chains/", "chain": "/chains/digest/", "admin": "/admin/agents/agent/add/",
    "admin-tools": "/admin/agents/tool/", "admin-hook": "/admin/agents/hook/add/", "admin-user": "/admin/agents/user/add/",
    "memories": "/memory/", "files": "/files/", "records": "/records/", "record-new": "/records/new/task/",
    "devices": "/devices/", "connections": "/connections/", "clients": "/clients/",
    "account": "/account/", "teams": "/teams/", "team": "/teams/readers/",
}  # fmt: skip


@pytest.fixture(scope="module")
def helpers(live):
    """Two agents with a stored function: one just calls it, one asks first; each has run once."""
    from studio.start import EXAMPLE

    post = live.http.post
    if live.http.get("/api/v1/agents/careful-helper").status_code == 404:  # else made for the other browser
        post("/api/v1/functions/", json={"name": "loan-payment", "source": EXAMPLE}).raise_for_status()
        post("/api/v1/functions/loan-payment/publish", json={}).raise_for_status()
        for name, mode in (("money-helper", "allow"), ("careful-helper", "ask")):
            grants = [{"tool": "loan-payment", "mode": mode}]
            agent = {"name": name, "description": "Loans.", "provider": "offline", "grants": grants}
            post("/api/v1/agents/", json=agent).raise_for_status()
            post(f"/api/v1/agents/{name}/publish", json={}).raise_for_status()
    post("/api/v1/teams/", json={"name": "readers"})
    answer = post("/api/v1/agents/money-helper/messages", json={"message": LOAN})
    return answer.json()["run"]["id"]


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_every_page_is_accessible_and_fits(device, open_page, helpers, request):
    """axe-core finds nothing serious, nothing sticks out, the console stays silent. axe looks at each page once, at every
    other one in the dark; `make exhaustive` lets it look at each in both.
    """
    page = open_page("/", device)
    for number, (name, path) in enumerate({**PAGES, "run": f"/runs/{helpers}/"}.items()):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        if is_exhaustive() or (number % 2 == 0) == (device is DESKTOP):
            assert serious(page) == [], name
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width <= 0, f"{name} is {width} px too wide: {page.evaluate(WIDE)}"
        picture(page, f"{name}-{request.node.callspec.id}")


def test_a_server_that_wants_a_login_is_connected_and_its_tool_approved(open_page):
    with FakeMcpLogin() as server:
        page = open_page("/connections/")
        page.fill("#server-name", f"notes-{secrets.token_hex(3)}")
        page.fill("#server-url", server.address)
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("button", name="Check now").click()
        page.get_by_role("link", name="Log in").click()
        page.get_by_role("button", name="Approve echo").click()
        page.get_by_role("row", name="echo").get_by_text("approved").wait_for()
        assert serious(page) == []
        picture(page, "connection-approved")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("link", name="Log in", exact=True).wait_for()
    assert server.revoked == ["refresh-0"]


@pytest.fixture(scope="module")
def suggested(live):
    """Two tasks that an agent wrote down, and one of the person's own."""
    post = live.http.post
    word = secrets.token_hex(3)
    agent = {"name": f"note-taker-{word}", "provider": "offline", "grants": [{"tool": "create_task"}]}
    post("/api/v1/agents/", json=agent).raise_for_status()
    post(f"/api/v1/agents/note-taker-{word}/publish", json={}).raise_for_status()
    titles = [f"Pay bill {word}", f"Call bank {word}"]
    for title in titles:
        said = {"message": f'create task with title "{title}" and due_date "2026-01-31"'}
        post(f"/api/v1/agents/note-taker-{word}/messages", json=said).raise_for_status()
    own = {"title": "Buy milk", "description": "Two litres.\nNot the cold one.", "assignees": ["Ann Lee"]}
    post("/api/v1/records/tasks/", json=own).raise_for_status()
    return wait_for(lambda: suggestions(live, word, len(titles)))


def suggestions(live, word, count):
    """As soon as there are so many: on a busy machine the messages are answered before their runs have ended."""
    found = live.http.get(f"/api/v1/records/?waiting=true&search={word}").json()["results"]
    return found if len(found) == count else None


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_a_record_is_accessible_and_fits(device, open_page, suggested, request):
    for name, path in {"records-filled": "/records/", "record": f"/records/{suggested[0]['id']}/"}.items():
        page = open_page(path, device)
        page.wait_for_load_state("networkidle")
        assert serious(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        picture(page, f"{name}-{request.node.callspec.id}")


def test_suggestions_are_read_corrected_approved_and_rejected(open_page, suggested, live):
    assert len(suggested) == 2
    page = open_page("/records/?review=waiting")
    page.get_by_role("link", name=suggested[0]["title"]).click()
    page.get_by_text("An agent suggests this task").wait_for()
    page.get_by_role("link", name="this run").first.wait_for()
    page.fill("#f-title", "Pay the bill today")
    page.fill("#f-assignees", "Ann Lee, Bo")
    page.get_by_role("button", name="Approve as shown").click()
    page.get_by_text("Saved and approved.").wait_for()
    page.fill("#comment-text", "Asked for the invoice.")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.locator(".comment", has_text="Asked for the invoice.").get_by_text("admin").wait_for()
    page.locator(".history summary").first.click()
    picture(page, "record-approved")
    page.goto("/records/?review=waiting")
    page.get_by_label(f"Choose {suggested[1]['title']}").check()
    page.fill("#reason", "done already")
    page.get_by_role("button", name="Reject chosen").click()
    page.get_by_text("1 rejected.").wait_for()
    page.goto("/records/?search=today&assignee=bo")
    page.get_by_role("link", name="Pay the bill today").wait_for()
    kept = live.http.get(f"/api/v1/records/tasks/{suggested[1]['id']}").json()
    assert (kept["review"], kept["reason"]) == ("rejected", "done already")
    page.goto("/records/new/task/")
    page.fill("#f-title", "Water the plants")
    page.get_by_role("button", name="Create task").click()
    page.get_by_role("heading", name="Water the plants").wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("“Water the plants” is deleted.").wait_for()


def unfold(page, field):
    if not page.locator(field).is_visible():
        page.locator("details", has=page.locator(field)).locator("summary").click()


def test_the_first_page_is_light(open_page, helpers):
    bodies = []
    page = open_page("about:blank")
    page.on("response", lambda answer: bodies.append(answer))
    page.goto("/")
    page.wait_for_load_state("networkidle")
    weight = sum(len(gzip.compress(answer.body())) for answer in bodies if answer.status == 200)
    print(f"first page: {weight / 1024:.1f} KB gzip in {len(bodies)} answers")
    assert weight <= 250 * 1024


def test_first_steps_lead_from_nothing_to_a_schedule(open_page):
    word = secrets.token_hex(3)  # a second try of this test meets what the first one stored
    helper = f"my-helper-{word}"
    page = open_page("/start/")
    unfold(page, "#id_function-name")
    page.fill("#id_function-name", f"my-loan-{word}")
    page.get_by_role("button", name="Check and publish").click()
    page.get_by_text("is live as version 1").wait_for()
    unfold(page, "#id_agent-name")
    page.fill("#id_agent-name", helper)
    page.select_option("#id_agent-provider", label="offline")  # other journeys added providers
    page.get_by_role("button", name="Publish the agent").click()
    page.get_by_text(f"“{helper}” is live. Send it a message").wait_for()
    page.get_by_role("link", name="Open the chat").click()
    page.fill("#text", "monthly payment for principal 200000, yearly_rate 3.5, years 25")
    page.keyboard.press("Enter")
    page.locator(".say.assistant", has_text="1001.25").wait_for()
    page.goto("/start/")
    page.get_by_role("link", name="Make a schedule").click()
    page.fill("#id_text", "monthly payment for principal 1000, yearly_rate 1, years 1")
    page.get_by_role("button", name="Create schedule").click()
    page.get_by_text("is due first").wait_for()
    picture(page, "scheduled")
    page.get_by_role("row", name=f"{helper}-daily").get_by_role("link", name=f"{helper}-daily").click()
    page.get_by_role("button", name="Run now").click()
    page.get_by_text("Started manually").first.wait_for()
    page.goto("/")
    page.get_by_role("heading", name="Newest runs").wait_for()


@pytest.mark.firefox
def test_a_conversation_shows_calls_in_place_and_branches(open_page, helpers, live):
    page = open_page("/playground/?agent=money-helper")
    page.fill("#text", LOAN)
    page.keyboard.press("Enter")
    page.locator("details.call", has_text="ok").locator("summary").click()
    page.locator("details.call pre", has_text="300374.14").wait_for()
    page.get_by_role("link", name="Run page").wait_for()
    first = page.url
    page.get_by_role("button", name="Retry from here").click()
    page.wait_for_url(lambda url: "session=" in url and url != first)
    page.locator(".say.assistant", has_text="1001.25").wait_for()
    assert page.locator(".say.user").count() == 1
    page.get_by_role("button", name="Edit").click()
    page.fill("#text", LOAN.replace("25", "10"))
    page.keyboard.press("Enter")
    page.locator(".say.assistant", has_text="1977").wait_for()
    picture(page, "conversation")
    page.reload()
    page.locator(".say.user").wait_for()
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Copy as code").click()
    page.locator("#snippet-curl", has_text="curl http://").wait_for()
    for language, command in (("curl", ["sh"]), ("python", [sys.executable]), ("websocket", [sys.executable])):
        code = page.locator(f"#snippet-{language}").text_content()
        ran = subprocess.run(
            command, input=code, env={**os.environ, "MUSTER_KEY": live.key}, capture_output=True, text=True
        )
        assert "1977" in ran.stdout, (language, code, ran.stdout, ran.stderr)
    assert serious(page) == []
    page.keyboard.press("Escape")


def test_two_versions_answer_side_by_side(open_page, helpers):
    page = open_page("/playground/?agent=money-helper&compare=1")
    page.fill("#version-1", "1")
    page.fill("#text", LOAN)
    page.keyboard.press("Enter")
    for column in (0, 1):
        page.locator(".column").nth(column).locator(".say.assistant", has_text="1001.25").wait_for()
    picture(page, "side-by-side")


def test_an_approval_is_edited_and_given_inline(open_page, helpers):
    page = open_page("/playground/?agent=careful-helper")
    page.fill("#text", LOAN)
    page.keyboard.press("Enter")
    page.locator(".ask textarea").fill('{"principal": 1200, "yearly_rate": 0, "years": 1}')
    assert serious(page) == []
    picture(page, "asking")
    page.get_by_role("button", name="Approve").click()
    page.locator(".say.assistant", has_text="100").wait_for()


def test_the_inbox_works_without_javascript(open_page, helpers, live):
    live.http.post("/api/v1/agents/careful-helper/messages", json={"message": LOAN, "wait": 0})

    def waiting():
        return live.http.get("/api/v1/approvals/").json()["results"]

    from tests.live import wait_for

    wait_for(waiting)
    page = open_page("/approvals/", java_script_enabled=False)
    page.locator("textarea.code").first.fill("{broken")
    page.get_by_role("button", name="Approve", exact=True).first.click()
    page.get_by_text("This is not a JSON object").wait_for()
    assert page.locator("textarea.code").first.input_value() == "{broken"
    open_page.complaints.clear()  # the browser itself logs the 422
    page.goto("/approvals/")
    page.get_by_role("button", name="Deny", exact=True).first.click()
    page.get_by_text("denied. The run continues.").wait_for()


@pytest.mark.firefox
def test_a_function_is_written_refused_tried_published_and_compared(open_page, live):
    page = open_page("/functions/new/")
    name = f"shout-{secrets.token_hex(3)}"  # a second try of this test meets what the first one stored
    page.fill("#name", "money-helper-tool")
    live.http.post("/api/v1/functions/", json={"name": "money-helper-tool", "source": SOURCE})
    page.get_by_role("button", name="Publish").click()
    page.locator("[data-wrong=name]", has_text="already").wait_for()
    assert page.locator("#name").input_value() == "money-helper-tool"
    open_page.complaints.clear()  # the browser itself logs the 409
    page.fill("#name", name)
    editor = page.locator(".cm-content")
    editor.fill("import os\ndef shout(): return os.environ")
    page.locator("#refusals li").first.wait_for()
    page.locator(".cm-lint-marker-error").first.wait_for()  # at its line, in the editor
    picture(page, "refused")
    editor.fill(SOURCE)
    page.locator("#argument-text").fill("hey")
    page.locator("#argument-times").press("Control+a")  # `fill` of a number adds to its default in Firefox
    page.locator("#argument-times").press_sequentially("2")
    page.keyboard.press("Control+Enter")
    page.locator("#outcome pre", has_text="HEYHEY").wait_for()
    page.locator("#outcome pre", has_text="said 2").wait_for()
    assert serious(page) == []
    picture(page, "workbench")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").get_by_text("This is the first version.").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    page.wait_for_url(f"**/functions/{name}/")
    page.get_by_text("v1 is live").wait_for()
    page.get_by_role("tab", name="Tests").click()
    page.fill("#new-name", "loud")
    page.fill("#new-arguments-as-json", '{"text": "a"}')
    page.fill("#new-expected-result-as-json", '"A"')
    page.get_by_role("button", name="Add").click()
    page.get_by_role("cell", name="loud").wait_for()
    page.get_by_role("button", name="Run all against the draft").click()
    page.get_by_text("1 passed, 0 failed.").wait_for()
    page.get_by_role("tab", name="Versions").click()
    page.get_by_text("v1 ").first.wait_for()
    assert serious(page) == []


def test_a_run_is_followed_while_it_works(open_page, helpers, live):
    sent = live.http.post("/api/v1/agents/careful-helper/messages", json={"message": LOAN, "wait": 0}).json()
    run = sent["run"]["id"]
    page = open_page(f"/runs/{run}/")
    page.locator(".pill", has_text="waiting for approval").wait_for()
    [approval] = live.http.get(f"/api/v1/approvals/?run={run}").json()["results"]
    other = open_page("/approvals/")  # the key of the journeys may not decide
    other.locator(f"#approval-{approval['id']}").get_by_role("button", name="Approve").click()
    page.locator(".pill.succeeded").first.wait_for()
    page.locator(".fall summary", has_text="loan-payment").click()
    page.get_by_role("link", name="Link to this").first.click()
    picture(page, "run-followed")


def test_the_keyboard_reaches_the_content_and_the_theme_is_kept(open_page):
    page = open_page("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("button", name="Theme").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_phone_has_a_menu(open_page):
    page = open_page("/", PHONE)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Chat").click()
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("navigation", name="Chat").get_by_role("link", name="All conversations").click()
    page.wait_for_url("**/sessions/")


def test_pages_are_useful_before_their_scripts_come(open_page, helpers, live):
    """No script is awaited before the first paint, forms of the server work, and nothing typed is lost meanwhile."""
    page = open_page("about:blank")
    held = []
    page.route("**/*.js", lambda route: held.append(route))
    page.goto("/", wait_until="commit")
    page.get_by_role("heading", name="Newest runs").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Chat").click(no_wait_after=True)
    page.locator("#text").fill("Hello there")
    assert page.get_by_role("button", name="Send").is_disabled()
    for route in held:
        route.abort() if route.request.frame.url != page.url else route.continue_()
    page.unroute("**/*.js")
    page.locator("[data-send]:enabled").wait_for()
    assert page.locator("#text").input_value() == "Hello there"
    open_page.complaints.clear()  # what was held for the page that was left


def test_the_page_says_when_the_device_is_paired(open_page, live):
    page = open_page("/devices/")
    page.get_by_role("button", name="Pair a device").click()
    code = page.locator(".code-big").inner_text()
    page.get_by_role("status").get_by_text("Waiting for the device").wait_for()
    assert serious(page) == []
    live.http.post(
        "/api/v1/devices/pair", json={"code": code, "name": "laptop", "platform": "Linux"}
    ).raise_for_status()
    page.get_by_role("status").get_by_text("“laptop” is paired. Connect it with the last command.").wait_for()
    page.get_by_role("link", name="Open its page").click()
    page.get_by_text("never connected").wait_for()
