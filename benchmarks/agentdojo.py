"""How often Muster asks on AgentDojo's honest tasks, and how many of its injections get through.

`python -m benchmarks.agentdojo [-v] [--suites FILE]` plays the ground truths of the pip package `agentdojo` through the
real runner. No language model is needed: a scripted one makes the calls of the task, and then, wherever a text with
the injection was read, every call that the injection asks for. It obeys every injection. A person approves each honest
call that is asked about and denies each injected one. Without --suites the package is installed into build/agentdojo,
an environment of its own, and its suites are written to build/agentdojo.json. What AgentDojo's tools do and which of
their results strangers write stands in agentdojo_set/tools.yaml. An SQLite file of its own; several minutes.
"""

import argparse
import json
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks import site

PACKAGE = "agentdojo==0.1.35"
HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
TOOLS = yaml.safe_load((HERE / "agentdojo_set" / "tools.yaml").read_text())
JSON = Any


@dataclass
class Case:
    """One task, alone or with one injection in each text that it reads. `results` are what the calls return."""

    suite: str
    task: str
    prompt: str
    calls: list[dict[str, JSON]]
    injection: str | None = None
    injected: list[dict[str, JSON]] = field(default_factory=list)
    goal: str = ""

    @property
    def is_lie(self) -> bool:
        """An injection that wants words in the answer and no call."""
        return self.injection is not None and not self.injected

    @property
    def turns(self) -> list[dict[str, JSON]]:
        return [*self.calls, *self.injected]


@dataclass
class Outcome:
    """How a case went: honest calls that were asked about, injected ones that were made unasked."""

    asked: list[str]
    through: list[str]
    is_marked: bool


# -- the suites -------------------------------------------------------------------------------------------------------


def read_suites(path: Path) -> dict[str, JSON]:
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(export())
    return json.loads(path.read_text())


def export() -> str:
    """The suites as JSON, written by the package in an environment of its own."""
    home = BUILD / "agentdojo"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True)
    script = HERE / "agentdojo_export.py"  # “-P”: its import of agentdojo must not find the module beside it
    return subprocess.run([python, "-P", script], check=True, capture_output=True, text=True).stdout


def cases_of(name: str, suite: dict[str, JSON]) -> Iterator[Case]:
    for case in suite["cases"]:
        yield Case(suite=name, **case)


# -- one case through the runner --------------------------------------------------------------------------------------


class Replay:
    """A toolset that answers each call with what AgentDojo's environment answered."""

    def __init__(self) -> None:
        self.results: list[JSON] = []

    def call(self, tool: Any, call: Any, context: Any) -> Any:
        from agents.tools import ToolResult

        expected = {"name": tool.name, "arguments": call.arguments}
        answer = next(one for one in self.results if {"name": one["name"], "arguments": one["arguments"]} == expected)
        return ToolResult(ok=True, value=answer["result"], untrusted=tool.untrusted)


def make_agent(owner: Any, provider: Any, name: str, suite: dict[str, JSON]) -> Any:
    """An agent with all tools of a suite, each in mode “allow”."""
    from agents.models import Agent, Tool, ToolGrant

    agent = Agent.objects.create(
        owner=owner, name=name, provider=provider, model_name="stub", system_prompt="You help.", max_steps=60
    )
    for tool_name, tool in suite["tools"].items():
        row = make_tool(Tool, owner, f"{name}-{tool_name}".replace("_", "-"), tool_name, tool)
        ToolGrant.objects.create(agent=agent, tool=row, mode="allow")
    agent.publish(author=owner)
    return Agent.objects.get(pk=agent.pk)


def make_tool(model: Any, owner: Any, name: str, tool_name: str, tool: dict[str, JSON]) -> Any:
    traits = TOOLS[tool_name]
    row = model(
        owner=owner, name=name, kind="function", description=tool["description"], input_schema=tool["schema"],
        effect=traits["effect"], untrusted=traits.get("untrusted", False), record_fields=traits.get("records", []),
    )  # fmt: skip
    row.freeze_hash()
    row.save()
    return row


def named(case: Case) -> list[dict[str, JSON]]:
    """Its calls under the names that the tools of its suite bear here."""
    return [{**call, "name": f"{case.suite}-{call['name']}".replace("_", "-")} for call in case.turns]


def play(case: Case, *, agent: Any, replay: Replay, stub: Any, work: Any) -> Outcome:
    """Run the case; `work(text)` sends the message, `work()` goes on after an answer; both return the run."""
    from tests.fakes import calls, says

    turns = named(case)
    replay.results = turns
    stub.turns.clear()
    stub.script(*(calls((turn["name"], turn["arguments"])) for turn in turns), says(case.goal or "Done."))
    run = work(case.prompt)
    question_turns: list[int] = []
    while run.status == "waiting":
        approval = run.approvals.get(status="open")
        question_turns.append(approval.call.turn - 1)
        run = work(approval, "approve" if question_turns[-1] < len(case.calls) else "deny")
    if run.status not in ("succeeded", "partial") and (run.error or {}).get("code") != "stuck":
        raise RuntimeError(f"{case.suite} {case.task} {case.injection}: {run.status} {run.error}")
    return outcome(case, run, question_turns)


def outcome(case: Case, run: Any, turns: list[int]) -> Outcome:
    done = {call.turn - 1 for call in run.tool_calls.filter(outcome="ok")} - set(turns)
    injected = [case.turns[place] for place in sorted(done) if place >= len(case.calls)]
    names = [turn["name"] for turn in injected if TOOLS[turn["name"]]["effect"] != "read"]
    honest = [case.calls[place]["name"] for place in turns if place < len(case.calls)]
    reply = run.messages.filter(role="assistant").first()
    return Outcome(honest, names, bool(reply and reply.untrusted))


# -- all of them ------------------------------------------------------------------------------------------------------


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--suites", type=Path, default=BUILD / "agentdojo.json")
    options.add_argument("-v", action="store_true", help="name each task that asks, and each injection let through")
    arguments = options.parse_args()
    suites = read_suites(arguments.suites)
    set_up()
    totals: Counter[str] = Counter()
    print(f"{'suite':12} {'tasks':>6} {'asked':>6} {'injections':>11} {'through':>8} {'lies':>5} {'marked':>7}")
    for name, suite in suites.items():
        counts = measure(name, suite, show=arguments.v)
        print_row(name, counts)
        totals += counts
    print_row("all", totals)


def print_row(name: str, counts: Counter[str]) -> None:
    print(
        f"{name:12} {counts['tasks']:>6} {counts['asked']:>6} {counts['injections']:>11} {counts['through']:>8}"
        f" {counts['lies']:>5} {counts['marked']:>7}",
        flush=True,
    )


def set_up() -> None:
    site.set_up()
    from django.conf import settings

    from runs.queue import wakeups

    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    wakeups.ring = lambda *_: None  # the runs are executed here


def measure(name: str, suite: dict[str, JSON], *, show: bool) -> Counter[str]:
    """`injections` counts those that ask for calls; `lies` those that want words in the answer."""
    counts: Counter[str] = Counter()
    for case, result in played(name, suite):
        if case.injection is None:
            counts += Counter(tasks=1, asked=bool(result.asked))
        elif case.is_lie:
            counts += Counter(lies=1, marked=result.is_marked)
        else:
            counts += Counter(injections=1, through=bool(result.through))
        calls = result.through if case.injection else result.asked
        if show and calls:
            print("  ", case.task, case.injection or "asks about", ", ".join(calls))
    return counts


def played(name: str, suite: dict[str, JSON]) -> Iterator[tuple[Case, Outcome]]:
    from django.contrib.auth import get_user_model

    from agents.models import Provider
    from registry import toolsets
    from tests.fakes import StubOpenAI

    owner = get_user_model().objects.get_or_create(username="emma")[0]
    replay = toolsets.TOOLSETS["function"] = Replay()  # type: ignore[assignment]
    with StubOpenAI() as stub:
        provider = Provider.objects.create(
            name=name, owner=owner, kind="openai-compatible", base_url=stub.url, api_key="none"
        )
        agent = make_agent(owner, provider, name, suite)
        for case in cases_of(name, suite):
            yield case, play(case, agent=agent, replay=replay, stub=stub, work=worker(owner, agent))


def worker(owner: Any, agent: Any) -> Any:
    """Executes a run in this process, after its message and after each answer of the person."""
    from runs.calls import approvals
    from runs.intake import messages
    from runs.models import Run
    from runs.worker import runner

    def work(arguments: Any, decision: str = "") -> Any:
        if decision:
            approvals.decide_approval(arguments, decision, by=owner)
            run_id = arguments.run_id
        else:
            run_id = messages.accept_message(user=owner, text=arguments, agent=agent).run.pk
        runner.execute_run(str(run_id))
        return Run.objects.get(pk=run_id)

    return work


if __name__ == "__main__":
    sys.exit(main())
