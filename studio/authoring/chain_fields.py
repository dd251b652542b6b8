"""The fields on the tab Settings of a chain's page: name in the API, label, kind of control, and help."""

from django.utils.translation import gettext_lazy as later

from agents.models import Chain

from .agent_fields import Field, Table, shown

SETTINGS: Table = [
    ("description", later("What it does"), "text", later("One sentence. People and agents choose by it.")),
    (
        "input_schema",
        later("Input schema"),
        "code",
        later("JSON Schema of the input: the form of a try, and what steps can read."),
    ),
    ("output", later("Result"), "text", later("JMESPath. Empty: the output of the last step.")),
    (
        "output_schema",
        later("Output schema"),
        "code",
        later("The result must match this JSON Schema. Empty: anything."),
    ),
    ("strategy", later("Order of the steps"), "choice", later("As they are connected, or by one of the presets.")),
    ("session", later("Conversation"), "choice", later("Whether the agents of the steps see each other's messages.")),
    ("timeout", later("Time limit of a run"), "number", later("Seconds. Waiting for a person does not count.")),
    ("max_parallel", later("Items at the same time"), "number", later("Of one loop, 1 to 256.")),
    ("max_chain_depth", later("Chains below it"), "number", later("How deep chains may be nested, 0 to 10.")),
    (
        "pool",
        later("Pool of workers"),
        "text",
        later("Only workers that serve this pool take its runs. Empty: the default."),
    ),
]
CHOICES = {"strategy": Chain.Strategy.choices, "session": Chain.Sessions.choices}


def settings(chain: Chain) -> list[Field]:
    return [Field(*row, value=shown(chain, row[0], row[2]), choices=CHOICES.get(row[0], [])) for row in SETTINGS]
