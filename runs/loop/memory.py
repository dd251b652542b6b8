"""The memories in an agent's prompt: chosen once for each run, recorded in it, and the same after a wait."""

from knowledge.memory import recall
from registry.routing.embeddings import similar_for
from runs.calls import shown
from runs.events import record as events
from runs.lifecycle.leases import Lease
from runs.models import Run

CHOSEN = "memory"  # in the run's policy: [[id, version], …]


def of(run: Run, lease: Lease) -> str:
    """What the instructions say about memories. An agent whose memory is off costs no query, and a visitor's run
    never contains what the owner's agents remember.
    """
    if run.agent is None or run.agent.memory == run.agent.Memory.OFF or run.embed is not None:
        return ""
    if (kept := run.policy.get(CHOSEN)) is not None:
        return recall.block_of(kept)
    return chosen(run, lease)


def chosen(run: Run, lease: Lease) -> str:
    text = "\n".join(message.text for message in shown.own_messages(run))
    found = recall.for_prompt(
        run.principal_id, run.agent_id, text, author_id=run.agent.owner_id, tokens=run.agent.memory_tokens,
        similar=similar_for,
    )  # fmt: skip
    run.policy = {**run.policy, CHOSEN: [[str(one.row.pk), one.row.version] for one in found.found]}
    lease.write(policy=run.policy)
    if found.found or found.left_out:
        events.record(run, "memory.recalled", found.as_json())
    return recall.block(found.found)
