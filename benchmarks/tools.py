"""An agent with 2,000 tools: what a turn costs with and without `search_tools`, and how often the search finds the tool.

`python -m benchmarks.tools` measures the search by words. With `--embeddings http://127.0.0.1:8160/v1` (such as
benchmarks/embedding_server.py) it also measures the search by words and meaning. -v shows what was not found. The
catalogue is made up: forty services with fifty tools each. An SQLite file of its own.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import yaml

from benchmarks import site

HERE = Path(__file__).parent / "tools_set"
VERBS = {
    "create": "Create {a} {thing} in {title}. Returns the new {thing} with its id.",
    "get": "Get one {thing} of {title} by its id, with all of its fields.",
    "list": "List {things} in {title}, newest first, with filters and pages.",
    "update": "Update fields of {a} {thing} in {title}. Fields that are left out keep their values.",
    "delete": "Delete {a} {thing} from {title}. It cannot be restored.",
}
PLACES = (1, 3, 10, 20)


def main() -> None:
    options = read_options()
    set_up(options)
    rows = make_tools()
    print(f"{len(rows):,} tools")
    measure_turn(rows)
    measure_search(rows)
    measure_recall(rows, is_verbose=options.v)


def read_options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--embeddings", default="", help="base URL of an OpenAI-compatible embedding server")
    options.add_argument("--embeddings-name", default="all-minilm-l6-v2")
    options.add_argument("-v", action="store_true", help="show what was not found")
    return options.parse_args()


def set_up(options: argparse.Namespace) -> None:
    site.set_up_for_models(f"meaning:{options.embeddings_name}" if options.embeddings else "")
    from agents.models import Provider

    Provider.objects.create(name="offline", kind="offline")
    if options.embeddings:
        site.add_server("meaning", options.embeddings)


# -- the catalogue ---------------------------------------------------------------------------------------------------


def definitions() -> Iterator[dict[str, Any]]:
    for service, (title, purpose, things) in yaml.safe_load((HERE / "catalogue.yaml").read_text()).items():
        for thing in things:
            for verb, text in VERBS.items():
                names = {"title": title, "thing": thing.replace("_", " "), "things": plural(thing.replace("_", " "))}
                description = f"{text.format(a=article(thing), **names)} {title}: {purpose}."
                yield {
                    "name": f"{service}_{verb}_{thing}",
                    "description": description,
                    "input_schema": schema_of(verb, names["thing"]),
                }


def schema_of(verb: str, thing: str) -> dict[str, Any]:
    identity = {"id": {"type": "string", "description": f"The id of the {thing}."}}
    fields = {
        "name": {"type": "string", "description": f"The name of the {thing}."},
        "description": {"type": "string", "description": "A text of at most 2,000 characters."},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    page = {
        "query": {"type": "string", "description": "Words to filter by."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "cursor": {"type": "string", "description": "Where the next page begins."},
    }
    properties = {"create": fields, "get": identity, "list": page, "update": identity | fields, "delete": identity}
    required = {"create": ["name"], "list": []}.get(verb, ["id"])
    return {"type": "object", "properties": properties[verb], "required": required, "additionalProperties": False}


def article(thing: str) -> str:
    return "an" if thing[0] in "aeio" else "a"


def plural(thing: str) -> str:
    return thing[:-1] + "ies" if thing.endswith("y") else thing + ("es" if thing.endswith("s") else "s")


def make_tools() -> list[Any]:
    from agents.models import Tool

    rows = [Tool(kind="http", effect="write", **definition) for definition in definitions()]
    for row in rows:
        row.freeze_hash()
    Tool.objects.bulk_create(rows, batch_size=500)
    return list(Tool.objects.order_by("pk"))


# -- a turn ----------------------------------------------------------------------------------------------------------


def measure_turn(rows: list[Any]) -> None:
    """The same agent with every tool shown, and with a few and the search; the request as it is sent."""
    from django.conf import settings

    settings.TOOLS_SHOWN = len(rows)
    print(f"\n{'a turn of an agent with these tools':44} {'CPU ms':>8} {'bytes':>10} {'tokens':>8}")
    for shown, label in ((len(rows), "all shown"), (40, "ten and search_tools shown")):
        settings.TOOLS_SHOWN = shown
        run, live = run_of(rows)
        size = turn(run, live)
        times = [timed(lambda run=run, live=live: turn(run, live)) for _ in range(15)]
        print(f"{label:44} {median(times) * 1000:8.1f} {size:10,} {size // 4:8,}")


def run_of(rows: list[Any]) -> tuple[Any, Any]:
    from django.contrib.auth import get_user_model

    from agents.models import Agent, Provider, ToolGrant
    from registry import factory
    from runs.models import Run

    person, _ = get_user_model().objects.get_or_create(username="bench")
    agent = Agent.objects.filter(name="everything").first()
    if agent is None:
        agent = Agent.objects.create(
            name="everything", owner=person, provider=Provider.objects.get(name="offline"), system_prompt="You help."
        )
        ToolGrant.objects.bulk_create([ToolGrant(agent=agent, tool=row) for row in rows], batch_size=500)
        agent.publish(author=person)
    agent = Agent.objects.select_related("published", "provider").get(pk=agent.pk)
    run = Run.objects.create(principal=person, agent=agent, version=agent.published, status=Run.Status.RUNNING)
    return run, factory.live_agent(agent)


def turn(run: Any, live: Any) -> int:
    """What happens before the model is asked; returns the bytes of the tool definitions in the request."""
    from runs.calls import offers
    from runs.calls.executor import ToolCallExecutor

    executor = ToolCallExecutor(run, None, live.tools)  # type: ignore[arg-type]
    executor.read_grants()
    offer = offers.build_offer(executor, [])
    tools = (*live._offered(offer.names), *offer.more)
    live.bid([{"role": "user", "content": "Hello"}], tool_names=offer.names, extra_tools=offer.more)
    return len(json.dumps([wire(tool) for tool in tools]))


def wire(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def timed(work: Callable[[], Any]) -> float:
    began = thread_time()
    work()
    return thread_time() - began


# -- the search ------------------------------------------------------------------------------------------------------


def measure_search(rows: list[Any]) -> None:
    from registry import tool_search

    print(f"\n{'one search':44} {'CPU ms':>8} {'wall ms':>8}")
    tool_search._entries.clear()
    show("reading all definitions (first search)", lambda: list(map(tool_search.build_entry, rows)), 1)
    entries = list(map(tool_search.build_entry, rows))
    show("by words", lambda: tool_search.rank_by_words(entries, "create an issue in jira"), 50)
    search = lambda: tool_search.search_tools(person(), entries, "create an issue in jira", 8)  # noqa: E731
    if search().method != "words":
        show("by words and meaning, vectors at hand", search, 10)


def show(label: str, work: Callable[[], Any], times: int) -> None:
    pairs = []
    for _ in range(times):
        began, cpu = perf_counter(), thread_time()
        work()
        pairs.append((thread_time() - cpu, perf_counter() - began))
    cpu, wall = (median(values) * 1000 for values in zip(*pairs, strict=True))
    print(f"{label:44} {cpu:8.1f} {wall:8.1f}")


def person() -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(username="bench")


def measure_recall(rows: list[Any], *, is_verbose: bool) -> None:
    from django.conf import settings

    from registry import tool_search

    entries = list(map(tool_search.build_entry, rows))
    names = {tool_search.build_tool_key(row): row.name for row in rows}
    methods = ["words", "words and meaning"] if settings.ROUTER_EMBEDDINGS else ["words"]
    print(f"\n{'the tool is among the first …':44}" + "".join(f"{place:>7}" for place in PLACES))
    embeddings = settings.ROUTER_EMBEDDINGS
    for method in methods:
        settings.ROUTER_EMBEDDINGS = embeddings if method != "words" else ""
        for kind, queries in yaml.safe_load((HERE / "queries.yaml").read_text()).items():
            places = []
            for text, tool in queries:
                matches = tool_search.search_tools(person(), entries, text, max(PLACES)).matches
                ranked = [names[match.key] for match in matches]
                places.append(ranked.index(tool) + 1 if tool in ranked else 10_000)
                if is_verbose and places[-1] > 10:
                    print(f"    {text!r}: {ranked[:3]}, not {tool}")
            shares = "".join(f"{sum(one <= place for one in places) / len(places):7.0%}" for place in PLACES)
            print(f"{f'{method}; {len(places)} queries in {kind.replace(chr(95), chr(32))}':44}{shares}")


if __name__ == "__main__":
    main()
