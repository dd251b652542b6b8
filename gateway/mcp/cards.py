"""The approval card, an MCP App (extension io.modelcontextprotocol/ui): the person decides in it what a run waits for.

A call whose run waits for an approval ends with a result that the host shows in the card. The card
decides with a tool that is visible to apps only, and follows the run to its end. Each approval has a
token in the result's `_meta`, which hosts keep from the model: a model cannot decide by itself.
"""

from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from agents.exceptions import Forbidden, Invalid
from agents.models.key import DECIDE
from gateway import turns
from gateway.reading import render_result_value
from gateway.turns import Turn
from plumbing.site_paths import reverse_without_prefix
from runs.calls import approvals
from runs.events import record as events
from runs.models import Approval, Run

from . import questions, sessions
from .catalogue import AGENT, SCOPES, Target, build_run_target
from .content import text
from .protocol import MIME, RpcRequest

JSON = Any
URI = "ui://muster/approval"
# The dot keeps it apart from the names of rows, which have none.
TOOL = "muster.decide_approval"
META = "muster/approvals"
SALT = "mcp.approval"
# How long a token holds. Later the person decides in Muster.
LIFETIME_S = 15 * 60
# Characters of arguments in a card.
LONGEST = 20_000
# No decision: the card only hears how the run goes on.
FOLLOW = "wait"
PAGE = Path(__file__).with_name("card.html")
# The mark of a tool whose calls may end with a card.
LINKED = {"ui": {"resourceUri": URI, "visibility": ["model"]}}


def describe_card_tool() -> dict[str, JSON]:
    """The tool of the card, as `tools/list` gives it."""
    properties: dict[str, JSON] = {name: {"type": "string"} for name in ("approval", "token", "note")}
    properties["decision"] = {"type": "string", "enum": [*approvals.DECISIONS, FOLLOW]}
    return {
        "name": TOOL,
        "title": "Decide an approval",
        "description": "For the approval card: approves or denies a call that waits, and follows its run.",
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["approval", "token", "decision"],
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
        "_meta": {"ui": {"resourceUri": URI, "visibility": ["app"]}},
    }


def build_card_resource() -> dict[str, JSON]:
    """The card, as `resources/read` gives it. It loads nothing, so the host's strictest policy holds."""
    return {"mimeType": MIME, "text": PAGE.read_text(), "_meta": {"ui": {"prefersBorder": True}}}


# -- the card of a run ------------------------------------------------------------------------------------------------


def find_waiting_card(rpc: RpcRequest, target: Target, run: Run) -> dict[str, JSON] | None:
    """The result of a call whose run waits for approvals; None if it waits for none."""
    query = Approval.objects.open().filter(questions.of_tree(run.pk), run__principal_id=rpc.user.pk)
    rows = list(query.order_by("id"))
    if not rows:
        return None
    row_ids = [row.pk for row in rows]
    decidable = questions.decidable(rpc).filter(pk__in=row_ids)
    decidable_ids = set(decidable.values_list("pk", flat=True))
    open_approvals = []
    for row in rows:
        may_decide = row.pk in decidable_ids
        open_approvals.append(serialize_card_approval(rpc, run, row, may_decide))
    tools = ", ".join(f"“{row.tool}”" for row in rows)
    link = build_approvals_link()
    words = (
        f"The run waits for the user's approval of {tools}. The user decides in the card or at {link}, and reads "
        "the outcome there. Do not call the tool again for it."
    )
    result: dict[str, JSON] = {
        "content": [text(words)],
        "_meta": {
            "muster/run": str(run.pk),
            "muster/status": str(Run.Status.WAITING),
            META: {"link": link, "open": open_approvals},
        },
    }
    if target.kind == AGENT:
        session_id = str(run.session_id or "")
        result["structuredContent"] = {"reply": "", "run": str(run.pk), "session": session_id}
    return result


def serialize_card_approval(rpc: RpcRequest, run: Run, row: Approval, may_decide: bool) -> dict[str, JSON]:
    """An approval as the card shows it. Nobody decides what they cannot read as a whole."""
    arguments = render_result_value(row.arguments)
    is_cut = len(arguments) > LONGEST
    facts = {"a": row.pk.hex, "r": run.pk.hex, "k": get_key_id(rpc)}
    token = sessions.seal_client_facts(rpc, SALT, facts)
    return {
        "id": row.pk.hex,
        "tool": row.tool,
        "effect": row.effect,
        "reason": row.reason,
        "arguments": arguments[:LONGEST],
        "is_cut": is_cut,
        "may_decide": may_decide and not is_cut,
        "token": token,
    }


def get_key_id(rpc: RpcRequest) -> int:
    """0 for a login session, which no key has."""
    return rpc.key.pk if rpc.key else 0


def build_approvals_link() -> str:
    return settings.PUBLIC_URL + reverse_without_prefix("page:approvals")


# -- the card's tool --------------------------------------------------------------------------------------------------


def is_call(rpc: RpcRequest) -> bool:
    """Whether this calls the tool of the card, which exists only for clients that show cards."""
    return rpc.shows_cards and rpc.params.get("name") == TOOL


def answer_card_decision(rpc: RpcRequest) -> Turn:
    """Decide, and where the run goes on from. Raises Forbidden, Invalid, AlreadyDecided."""
    arguments = rpc.object("arguments")
    approval = arguments.get("approval")
    facts = sessions.open_sealed_facts(rpc, SALT, arguments.get("token"), LIFETIME_S)
    # The token is for one approval and one key: it cannot decide another one.
    if facts is None or facts["a"] != approval or facts["k"] != get_key_id(rpc):
        raise Forbidden("This card cannot decide any more.", hint=f"Decide at {build_approvals_link()}.")
    turn = turns.find_turn(rpc.user, facts["r"])
    if turn is None or not rpc.may(SCOPES[build_run_target(turn.run).kind]):
        raise Forbidden("There is no such run for this key.", hint="Use the key that started the run.")
    decision = arguments.get("decision")
    note = arguments.get("note", "")
    if decision not in (*approvals.DECISIONS, FOLLOW) or not isinstance(note, str):
        raise Invalid(f"“decision” must be approve, deny or {FOLLOW}, and “note” must be text.")
    if decision != FOLLOW:
        decide_card_approval(rpc, UUID(facts["a"]), decision, note)
    events.expect_watcher(turn.run.pk)
    return Turn(turn.run, turn.run.last_event)


def decide_card_approval(rpc: RpcRequest, approval: UUID, decision: str, note: str) -> None:
    row = questions.decidable(rpc).filter(pk=approval).first()
    if row is None:
        message = f"This key may not decide it: it needs the scope {DECIDE}."
        raise Forbidden(message, hint=f"Decide at {build_approvals_link()}.")
    approvals.decide_approval(row, decision, by=rpc.user, note=note, source="mcp card")
