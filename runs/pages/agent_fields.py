"""The fields of an agent's page: name, label, kind of control, and help, by tab.

Names and values are those of the API; a dot leads into an object. Kinds: `text`, `long`, `code` (JSON), `number`,
`lines` (a list with one entry on each line), `choice`.
"""

import json
from dataclasses import dataclass
from typing import Any

from agents.models import Agent

Table = list[tuple[str, str, str, str]]
TEMPLATE = "With variables (tab Data) it is a template: {{ customer }}, {% if orders %} … {% endif %}."
WRITING: Table = [
    ("description", "What it does", "text", "One sentence. People, the router and other agents choose by it."),
    ("system_prompt", "Instructions", "long", f"What the model is told before each conversation. {TEMPLATE}"),
]
MODEL: Table = [
    ("fallback_models", "Fallback models", "lines", "Models of the same provider to try when the first fails."),
    ("model_params.temperature", "Temperature", "number", "0 to 2. Empty: the provider decides."),
    ("model_params.top_p", "Top p", "number", "0 to 1. Empty: the provider decides."),
    ("model_params.max_tokens", "Longest answer", "number", "In tokens. Empty: the provider decides."),
]
LIMITS: Table = [
    ("max_steps", "Steps of a run", "number", "How often the model is asked in one run, 1 to 200."),
    ("timeout", "Time limit of a run", "number", "Seconds. Waiting for a person does not count."),
    ("max_running", "Runs at the same time", "number", "Empty: any number."),
    ("max_agent_depth", "Agents below it", "number", "How deep agents may call each other, 0 to 10."),
    ("max_chain_depth", "Chains below it", "number", "How deep chains may be nested, 0 to 10."),
    ("session_context", "What it remembers", "choice", "Of the conversation, in each new message."),
    ("context_messages", "Messages it remembers", "number", "1 to 500."),
    ("context_tokens", "Tokens it remembers", "number", "100 to 2,000,000."),
    ("memory", "Memory", "choice", "What it knows of earlier conversations. Takes effect at once."),
    ("memory_tokens", "Tokens of memories", "number", "Of each prompt at most, 50 to 20,000."),
    ("pool", "Pool of workers", "text", "Only workers that serve this pool take its runs. Empty: the default."),
]
DATA: Table = [
    ("output_schema", "Output schema", "code", "The reply must be JSON that matches this JSON Schema. Empty: text."),
    ("input_schema", "Input schema", "code", "JSON Schema of data that a message must bring along. Empty: none."),
    ("variables", "Variables", "code", "Values that a message gives to the instructions: name to JSON Schema."),
    ("capabilities", "Capabilities", "lines", "Words for what it can do; the router and other agents find it by them."),
    ("examples", "Example messages", "lines", "Shown before a conversation, and used by the router."),
    ("delegates_to", "Delegates to", "lines", "Capabilities of other agents that it may give work to."),
]
TABS = {"writing": WRITING, "model": MODEL, "limits": LIMITS, "data": DATA}
CHOICES = {"session_context": Agent.SessionContext.choices, "memory": Agent.Memory.choices}


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
