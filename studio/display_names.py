"""What people call a tool: the display name of the function, agent or chain behind it."""

from typing import Any

from agents.models import Agent, Chain
from functions.models import StoredFunction

# Names on one page.
MOST = 500
KINDS: tuple[Any, ...] = (Chain, Agent, StoredFunction)


def find_display_names(user: Any) -> dict[str, str]:
    """{technical name: display name} of what this person may use and somebody gave one; their own rows win.

    Pages show the technical name too: somebody else's row may have the name of another tool.
    """
    parts = []
    for model in KINDS:
        rows = model.objects.usable_by(user).exclude(display_name="").order_by()
        parts.append(rows.values_list("name", "display_name", "owner_id"))
    first, *others = parts
    named_rows = list(first.union(*others, all=True)[:MOST])
    labels = {name: label for name, label, _owner_id in named_rows}
    for name, label, owner_id in named_rows:
        if owner_id == user.pk:
            labels[name] = label
    return labels
