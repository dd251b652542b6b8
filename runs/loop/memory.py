"""The memories in an agent's prompt: chosen once for each run, recorded in it, and the same after a wait."""

from knowledge.memory import recall
from registry.routing.embeddings import find_similarities
from runs.calls import model_messages
from runs.events import record as events
from runs.intake import authors
from runs.models import Run
from runs.queue.leases import Lease

CHOSEN = "memory"  # in the run's policy: [[id, version], …]


def render_memories(run: Run, lease: Lease) -> str:
    """The text about memories in the agent's instructions; empty, without a query, if the agent's memory
    is off. A visitor's run never contains memories of the owner's agents.
    """
    if run.agent is None or run.agent.memory == run.agent.Memory.OFF or run.embed is not None:
        return ""
    if (kept := run.policy.get(CHOSEN)) is not None:
        return recall.render_seen_memories(kept)
    return choose_memories(run, lease)


def choose_memories(run: Run, lease: Lease) -> str:
    text = "\n".join(message.text for message in model_messages.own_messages(run))
    recalled = recall.for_prompt(
        run.principal_id, run.agent_id, text, authors=authors.find_run_owners(run), tokens=run.agent.memory_tokens,
        similar=find_similarities,
    )  # fmt: skip
    run.policy = {**run.policy, CHOSEN: [[str(one.row.pk), one.row.version] for one in recalled.memories]}
    lease.write(policy=run.policy)
    if recalled.memories or recalled.left_out:
        events.record_event(run, "memory.recalled", recalled.as_json())
    return recall.block(recalled.memories)
