"""The table of connectors, and their operations as rows of the tool catalogue."""

from agents.models import Tool
from agents.models.agent import tool_changed

from .base import Connector, Operation
from .gmail import Gmail
from .outlook import Outlook
from .teams import Teams

CONNECTORS: dict[str, type[Connector]] = {"gmail": Gmail, "outlook": Outlook, "teams": Teams}
# What the service calls things; nobody who writes to it chooses them.
RECORDS = ["id", "thread_id", "place", "next"]
# Deadlines of slow methods, in seconds.
SLOW = {"fetch_new": 120.0, "search": 60.0}


def get_connector_operation(provider: str, method: str) -> Operation:
    """Raises LookupError for anything that is not an operation of a connector, so a tool row cannot
    reach other methods.
    """
    for operation in CONNECTORS[provider].operations():
        if operation.method == method:
            return operation
    raise LookupError(method)


def offer_tools() -> int:
    """Create or update a site tool for every operation; safe to repeat. Returns how many rows
    changed.
    """
    changed = 0
    for provider, connector in CONNECTORS.items():
        for operation in connector.operations():
            changed += save_operation_tool(provider, operation)
    return changed


def save_operation_tool(provider: str, operation: Operation) -> bool:
    """Whether anything changed."""
    name = f"{provider}_{operation.method}"
    tool = Tool.objects.filter(owner=None, name=name).first()
    if tool is None:
        tool = Tool(owner=None, name=name, kind=Tool.Kind.CONNECTOR)
    before = tool.definition_hash
    tool.kind = Tool.Kind.CONNECTOR
    tool.description = operation.description
    tool.input_schema = operation.input_schema
    tool.effect = operation.effect
    # Strangers write what an account holds.
    tool.untrusted = operation.access == "read"
    tool.record_fields = []
    if tool.untrusted:
        tool.record_fields = RECORDS
    tool.deadline_s = SLOW.get(operation.method, 30.0)
    tool.source = {"connector": provider, "method": operation.method}
    if tool.freeze_hash() == before:
        return False
    tool.save()
    tool_changed(tool)
    return True
