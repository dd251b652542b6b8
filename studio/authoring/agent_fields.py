"""The fields of an agent's page: name, label, kind of control, and help, by tab.

Names and values are those of the API; a dot leads into an object. Kinds: `text`, `long`, `code` (JSON), `number`,
`lines` (a list with one entry on each line), `choice`.
"""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as later

from agents.models import Agent

Table = list[tuple[str, Any, str, Any]]
WRITING: Table = [
    (
        "description",
        later("What it does"),
        "text",
        later("One sentence. People, the router and other agents choose by it."),
    ),
    (
        "system_prompt",
        later("Instructions"),
        "long",
        later(
            "The model gets them before each conversation. With variables (tab Data) they are a template: "
            "{{ customer }}, {% if orders %} … {% endif %}."
        ),
    ),
]
MODEL: Table = [
    (
        "fallback_models",
        later("Fallback models"),
        "lines",
        later("Models of the same provider to try when the first fails."),
    ),
    ("model_params.temperature", later("Temperature"), "number", later("0 to 2. Empty: the provider decides.")),
    ("model_params.top_p", later("Top p"), "number", later("0 to 1. Empty: the provider decides.")),
    ("model_params.max_tokens", later("Longest answer"), "number", later("In tokens. Empty: the provider decides.")),
]
LIMITS: Table = [
    ("max_steps", later("Steps of a run"), "number", later("How often the model is asked in one run, 1 to 200.")),
    ("timeout", later("Time limit of a run"), "number", later("Seconds. Waiting for a person does not count.")),
    ("max_running", later("Runs at the same time"), "number", later("Empty: any number.")),
    ("max_agent_depth", later("Agents below it"), "number", later("How deep agents may call each other, 0 to 10.")),
    ("max_chain_depth", later("Chains below it"), "number", later("How deep chains may be nested, 0 to 10.")),
    ("session_context", later("What it remembers"), "choice", later("Of the conversation, in each new message.")),
    ("context_messages", later("Messages it remembers"), "number", later("1 to 500.")),
    ("context_tokens", later("Tokens it remembers"), "number", later("100 to 2,000,000.")),
    ("memory", later("Memory"), "choice", later("What it knows of earlier conversations. Takes effect at once.")),
    ("memory_tokens", later("Tokens of memories"), "number", later("Of each prompt at most, 50 to 20,000.")),
    (
        "memory_summary",
        later("Memory after a conversation"),
        "choice",
        later("Its model notes facts when a conversation has rested: one more model call. Takes effect at once."),
    ),
    (
        "pool",
        later("Pool of workers"),
        "text",
        later("Only workers that serve this pool take its runs. Empty: the default."),
    ),
]
DATA: Table = [
    (
        "output_schema",
        later("Output schema"),
        "code",
        later("The reply must be JSON that matches this JSON Schema. Empty: text."),
    ),
    (
        "input_schema",
        later("Input schema"),
        "code",
        later("JSON Schema of data that a message must bring along. Empty: none."),
    ),
    (
        "variables",
        later("Variables"),
        "code",
        later("Values that a message gives to the instructions: name to JSON Schema."),
    ),
    (
        "capabilities",
        later("Capabilities"),
        "lines",
        later("Words for what it can do; the router and other agents find it by them."),
    ),
    ("examples", later("Example messages"), "lines", later("Shown before a conversation, and used by the router.")),
    ("delegates_to", later("Delegates to"), "lines", later("Capabilities of other agents that it may give work to.")),
]
TABS = {"writing": WRITING, "model": MODEL, "limits": LIMITS, "data": DATA}
CHOICES = {"session_context": Agent.SessionContext.choices, "memory": Agent.Memory.choices,
           "memory_summary": Agent.MemorySummary.choices}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    kind: str
    help: str
    value: str
    choices: list[tuple[str, str]]

    @property
    def id(self) -> str:
        return f"f-{self.name.replace('.', '-')}"


def groups(agent: Agent) -> dict[str, list[Field]]:
    """The fields of each tab with the agent's values as texts."""
    return {
        tab: [Field(*row, value=shown(agent, row[0], row[2]), choices=CHOICES.get(row[0], [])) for row in table]
        for tab, table in TABS.items()
    }


def shown(row: Any, name: str, kind: str) -> str:
    first, _, rest = name.partition(".")
    value: Any = getattr(row, first)
    value = (value or {}).get(rest) if rest else value
    if value is None or value == {}:
        return ""
    if kind == "lines":
        return "\n".join(value)
    return json.dumps(value, indent=2, ensure_ascii=False) if kind == "code" else str(value)
