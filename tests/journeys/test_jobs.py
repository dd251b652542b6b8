"""Jobs as a new person does them, with nothing but the pages; each has a limit of time, some of actions.

The time is that of a person, not of the machine: what is typed, what is decided, and the pages that are read.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import httpx2
import pytest

from tests.live import ROOT, environment_of, wait_for

from .browser import DESKTOP, assert_inside_window, picture

pytestmark = [pytest.mark.browser, pytest.mark.live]

TYPED_S, DECISION_S, PAGE_S = 0.2, 2, 5
PASSWORD = "correct-horse-7"
MADE = """
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from agents.models import ApiKey, Membership, Team
from agents import roles
def person(name, role):
    user = get_user_model().objects.create_user(name, password={password!r})
    user.groups.add(Group.objects.get(name=role))
    return user
author, colleague = person({author!r}, "author"), person({colleague!r}, "operator")
team = Team.objects.create(name={team!r})
Membership.objects.create(team=team, user=author, role="author")
Membership.objects.create(team=team, user=colleague, role="operator")
print(ApiKey.make(author, ["*"], name="journey", expires_at=None)[1])
"""
SOURCE = '''def tip(bill: float, percent: float) -> float:
    """What to pay with the tip.

    Args:
        bill: The amount.
        percent: Such as 10.
    """
    return bill + bill * percent / 100
'''


class Person:
    """Acts on a page, and counts: typed characters, decisions (a click, a choice, a field), pages to read."""

    def __init__(self, page):
        self.page, self.typed, self.decisions, self.pages = page, 0, 0, 0
        page.on("domcontentloaded", lambda _: self.read())

    @property
    def seconds(self):
        return self.typed * TYPED_S + self.decisions * DECISION_S + self.pages * PAGE_S

    def read(self):
        self.pages += 1

    def click(self, target):
        self.decisions += 1
        target.click()

    def button(self, name, within=None):
        self.click((within or self.page).get_by_role("button", name=name, exact=True))

    def link(self, name):
        self.click(self.page.get_by_role("link", name=name, exact=True).first)

    def choose(self, field, value=None, label=None):
        self.decisions += 1
        self.page.locator(field).select_option(value, label=label)

    def write(self, field, text):
        """In place of what stands there."""
        self.decisions += 1
        self.typed += len(text)
        self.page.locator(field).fill(text)

    def press(self, key):
        self.decisions += 1
        self.page.keyboard.press(key)

    def type(self, text):
        self.typed += len(text)
        self.page.keyboard.type(text)

    def paste(self, answer=""):
        """A copied command into a terminal, with Enter, and what is answered to its question."""
        self.decisions += 3 if answer else 2
        self.typed += len(answer)

    def sign_in(self, name):
        self.page.goto("/login/")
        self.write("#id_username", name)
        self.write("#id_password", PASSWORD)
        self.button("Sign in")

    def done(self, job, within, actions=None):
        counted = f"{job}: {self.seconds:.0f} s ({self.typed} typed, {self.decisions} decisions, {self.pages} pages)"
        print(counted)
        picture(self.page, f"job-{job}")
        assert self.seconds <= within, counted
        assert actions is None or self.decisions <= actions, counted


@pytest.fixture(scope="module")
def people(live):
    """An author and a colleague in one team, who have never signed in; `author.http` is the author's own key."""
    mark = token_hex(3)
    names = {"author": f"jobs-author-{mark}", "colleague": f"jobs-mate-{mark}", "team": f"jobs-{mark}"}
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", MADE.format(password=PASSWORD, **names)]
    done = subprocess.run(command, cwd=ROOT, env=environment_of(live), capture_output=True, text=True, timeout=120)
    key = re.search(r"mk_\S+", done.stdout)
    assert key, done.stderr
    with httpx2.Client(base_url=live.url, headers={"Authorization": f"Bearer {key[0]}"}, timeout=60) as http:
        yield names | {"http": http}


@pytest.fixture
def sit_down(browser, live, people):
    """`sit_down("author")`: this person at the page of signing in, and then signed in."""
    opened = []

    def begin(who):
        context = browser.new_context(base_url=live.url, **DESKTOP)
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        one = Person(page)
        one.sign_in(people[who])
        return one

    yield begin
    for context in opened:
        context.close()


def test_an_own_function_in_an_own_agent_that_asks_before_it_calls(sit_down):
    """From the first sign-in, which leads to the first steps."""
    one = sit_down("author")
    page = one.page
    page.get_by_role("heading", name="First steps").wait_for()
    one.write("#id_function-name", "tip")
    one.write("#id_function-source", SOURCE)
    one.button("Check and publish")
    page.get_by_text("“tip” is live as version 1").wait_for()
    one.write("#id_agent-name", f"jobs-waiter-{token_hex(3)}")
    one.write("#id_agent-description", "Says what to pay.")
    one.write("#id_agent-system_prompt", "Use your tool.")
    one.choose("#id_agent-provider", label="offline")
    one.click(page.get_by_label("Ask me before each call"))
    one.button("Publish the agent")
    one.link("Open the chat")
    one.write("#text", "tip bill 50 percent 10")
    one.press("Enter")
    one.button("Approve")
    page.locator(".say.assistant", has_text="55").wait_for()
    one.done("own-function", within=5 * 60)


def test_a_function_is_written_given_to_a_new_agent_and_approved(sit_down, people):
    """From the pages of functions and agents, each step leading to the next."""
    one = sit_down("author")
    page, mark = one.page, token_hex(3)
    one.decisions = 0  # signing in is no part of it
    one.link("Functions")
    one.link("New function")
    one.write("#name", f"tip-{mark}")
    one.write(".cm-content", SOURCE)
    one.click(page.locator("[data-publish]:enabled"))
    look_at_every_size(page, "dialog[open]")
    one.button("Publish", page.get_by_role("dialog"))
    page.get_by_text("v1 is live").wait_for()
    one.link("Give it to an agent")
    page.locator("#give-agent").wait_for()
    assert page.locator("#give-mode").input_value() == "ask", (
        "what changes something asks unless somebody decides otherwise"
    )
    one.button("Give it")
    one.write("#name", f"jobs-waiter-{mark}")
    one.write("#description", "Says what to pay.")
    one.choose("#provider", label="offline")
    one.button("Create and open")
    page.locator("[data-publish]:enabled").wait_for()
    one.write("#f-system_prompt", "Use your tool.")
    one.write("#text", f"tip-{mark} bill 50 percent 10")
    one.press("Enter")
    one.button("Approve")
    page.locator(".try .answers", has_text="55").wait_for()
    one.click(page.locator("[data-publish]"))
    look_at_every_size(page, "dialog[open]")
    one.button("Publish", page.get_by_role("dialog"))
    page.get_by_text("Version 1 is live.").wait_for()
    one.done("function-to-agent", within=5 * 60, actions=25)


def test_a_chain_of_three_steps_with_a_loop_and_a_condition(sit_down, people):
    one = sit_down("author")
    page, name = one.page, f"jobs-digest-{token_hex(3)}"
    one.decisions = 0  # signing in is no part of it
    one.link("Chains")
    one.link("New chain")
    one.write("#name", name)
    one.button("Create and open")
    page.locator("[data-at=publish]:enabled").wait_for()
    one.button("Add a field")
    one.type("texts")
    one.choose("#f-input_schema-type-0", "texts")
    add(one, "text_statistics", "read")
    one.click(page.locator("#tab-when"))
    one.choose("#step-each", "field:input.texts")
    page.locator("#step-parallel").wait_for()
    add(one, "text_statistics", "count")
    one.choose("#input-text-insert", "field:steps.read.output")
    add(one, "shorten_text", "short")
    one.write("#input-text", "Texts: {{input.texts}}")
    one.write("#input-length", "20")
    one.click(page.locator("#tab-when"))
    one.choose("#step-when", "field:steps.count.output")
    one.click(page.locator("[data-at=to-try]"))
    one.write("#argument-texts", "one two\nthree")
    one.button("Run it")
    page.locator("[data-try=answer]").get_by_text("succeeded").wait_for()
    one.click(page.locator("[data-at=publish]"))
    look_at_every_size(page, "dialog[open]")
    one.button("Publish", page.get_by_role("dialog"))
    page.get_by_text("Version 1 is live.").wait_for()
    saved = {step["key"]: step for step in people["http"].get(f"/api/v1/chains/{name}").json()["steps"]}
    assert (saved["read"]["for_each"], saved["read"]["input"]) == ("input.texts", {"text": "item"})
    assert saved["short"]["when"] == "steps.count.output"
    one.done("chain", within=8 * 60, actions=35)


def look_at_every_size(page, selector):
    """What was opened lies inside the window of a desk, a small laptop and a phone."""
    before = page.viewport_size
    for width, height in ((1440, 900), (1024, 768), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        assert_inside_window(page, selector)
    page.set_viewport_size(before)


def add(one, tool, name):
    """A step with a name of its own, which the keys reach at once."""
    one.click(one.page.locator("[data-at=add]"))
    one.type(tool)
    one.page.get_by_role("option", name=tool).first.wait_for()
    if name == "read":
        look_at_every_size(one.page, "dialog[open]")
    one.press("Enter")
    one.page.locator("#step-key:focus").wait_for()
    one.page.keyboard.press("Control+a")  # Firefox reports a change only of what was typed
    one.type(name)
    one.press("Tab")
    one.page.locator(f".steps-pane [data-step={name}]").wait_for()


def test_a_colleague_approves(sit_down, people):
    """The tool asks the team; a signed-in colleague sees the number at the menu's line and decides."""
    post, name = people["http"].post, f"jobs-parcels-{token_hex(3)}"
    grants = [{"tool": "create_task", "mode": "ask", "decides": "team"}]
    agent = {"name": name, "provider": "offline", "team": people["team"], "grants": grants}
    post("/api/v1/agents/", json=agent).raise_for_status()
    post(f"/api/v1/agents/{name}/publish", json={}).raise_for_status()
    said = {"message": 'create task with title "Ship it"', "wait": 0}
    run = post(f"/api/v1/agents/{name}/messages", json=said).json()["run"]["id"]
    wait_for(lambda: people["http"].get(f"/api/v1/approvals/?run={run}").json()["results"])
    one = sit_down("colleague")
    one.click(one.page.get_by_role("navigation").get_by_role("link", name="Approvals").first)
    one.button("Approve")
    one.page.get_by_text("approved. The run continues.").wait_for()
    wait_for(lambda: people["http"].get(f"/api/v1/runs/{run}").json()["status"] == "succeeded")
    one.done("approve", within=60)


def test_a_device_is_connected_with_the_commands_of_the_page(sit_down, tmp_path):
    one = sit_down("author")
    page = one.page
    one.click(page.get_by_role("navigation").get_by_role("link", name="Connections"))
    one.click(page.get_by_role("navigation").get_by_role("link", name="Devices"))
    one.button("Pair a device")
    commands = [page.locator(f"#{name}-command").inner_text() for name in ("install", "pair", "run")]
    machine = Machine(tmp_path)
    for number, command in enumerate(commands):
        one.click(page.get_by_role("button", name="Copy").nth(number))
        one.paste("y" if "pair" in command else "")
    machine.install(commands[0])
    machine.finish(commands[1], "y\n")
    with machine.started(commands[2]):
        one.link("Devices")
        device = page.locator("main tbody tr")
        wait_for(lambda: page.reload() and device.get_by_text("online").count())
        one.click(device.get_by_role("link"))
        page.locator("code", has_text="documents").wait_for()
        one.done("device", within=3 * 60)


class Machine:
    """A machine of its own: a home, an environment of Python, and the programs that are installed in it."""

    def __init__(self, home: Path):
        self.home, self.bin = home, home / "own" / "bin"
        (home / "Documents").mkdir()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        import websockets

        libraries = str(Path(websockets.__file__).parents[1])  # so that the test needs no registry of packages
        self.environment |= {"HOME": str(home), "PYTHONPATH": libraries}

    def install(self, command):
        """What pipx does with this line: an environment of its own, and pip in it."""
        program, verb, wheel = shlex.split(command)
        assert (program, verb) == ("pipx", "install")
        self.call(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", self.home / "own")
        python = self.bin / "python"
        self.call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)

    def call(self, *command, typed=""):
        done = subprocess.run(
            [str(one) for one in command], input=typed, capture_output=True, text=True, timeout=120,
            cwd=self.home, env=self.environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def finish(self, command, typed):
        program, *rest = shlex.split(command)
        return self.call(self.bin / program, *rest, typed=typed)

    def started(self, command):
        program, *rest = shlex.split(command)
        return Started([str(self.bin / program), *rest], self.home, self.environment)


class Started:
    def __init__(self, command, home, environment):
        self.command, self.more = command, {"cwd": home, "env": environment}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL, **self.more)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def test_why_a_run_failed_is_found(sit_down, people):
    post, name = people["http"].post, f"jobs-broken-{token_hex(3)}"
    source = 'def jobs_broken(text: str) -> str:\n    """Take a letter.\n\n    Args:\n        text: A word.\n    """\n    return text[99]\n'
    post("/api/v1/functions/", json={"name": name, "source": source}).raise_for_status()
    post(f"/api/v1/functions/{name}/publish", json={}).raise_for_status()
    step = {"key": "letter", "tool": name, "input": {"text": {"value": "short"}}}
    chain = {"name": name, "steps": [step], "grants": [{"tool": name}]}
    post("/api/v1/chains/", json=chain).raise_for_status()
    post(f"/api/v1/chains/{name}/publish", json={}).raise_for_status()
    run = post(f"/api/v1/chains/{name}/runs", json={"input": {}, "wait": 30}).json()
    assert run["status"] == "failed", json.dumps(run)
    one = sit_down("author")
    one.click(one.page.get_by_role("navigation").get_by_role("link", name="Runs"))
    one.click(one.page.get_by_role("row", name=name).get_by_role("link").first)
    one.page.locator(".note.error", has_text="string index out of range").wait_for()
    one.click(one.page.locator(".note.error").get_by_role("link", name="letter"))
    one.page.locator(".fall details[open]", has_text="short").first.wait_for()
    one.done("why-failed", within=60)
