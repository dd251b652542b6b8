"""The fields on the tab Settings of a chain's page: name in the API, label, kind of control, and help."""

from agents.models import Chain

from .agent_fields import Field, Table, shown

SETTINGS: Table = [
    ("description", "What it does", "text", "One sentence. People and agents choose by it."),
    ("input_schema", "Input schema", "code", "JSON Schema of the input: the form of a try, and what steps can read."),
    ("output", "Result", "text", "JMESPath. Empty: the output of the last step."),
    ("output_schema", "Output schema", "code", "The result must match this JSON Schema. Empty: anything."),
    ("strategy", "Order of the steps", "choice", "As they are connected, or by one of the presets."),
    ("session", "Conversation", "choice", "Whether the agents of the steps see what the others said."),
    ("timeout", "Time limit of a run", "number", "Seconds. Waiting for a person does not count."),
    ("max_parallel", "Items at the same time", "number", "Of one loop, 1 to 256."),
    ("max_chain_depth", "Chains below it", "number", "How deep chains may be nested, 0 to 10."),
    ("pool", "Pool of workers", "text", "Only workers that serve this pool take its runs. Empty: the default."),
]
CHOICES = {"strategy": Chain.Strategy.choices, "session": Chain.Sessions.choices}


def settings(chain: Chain) -> list[Field]:
    return [Field(*row, value=shown(chain, row[0], row[2]), choices=CHOICES.get(row[0], [])) for row in SETTINGS]
