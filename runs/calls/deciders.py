"""Who may answer an approval: a setting of its grant, copied to the approval when it is created."""

from typing import Any, Protocol

from agents.models import Membership, ToolGrant
from runs.models import Run

Decider = ToolGrant.Decider


class Setting(Protocol):
    @property
    def decides(self) -> str: ...

    @property
    def decider_role(self) -> str: ...

    @property
    def not_starter(self) -> bool: ...


def choose_deciders(run: Run, grant: Setting | None) -> dict[str, Any]:
    """Columns of the approval. Others decide only where the run's person is among them: in the team of the agent or
    chain, or its owner. Elsewhere the person decides alone, whatever a stranger's grant says."""
    if grant is None or (grant.decides == Decider.STARTER and not grant.not_starter):
        return {}
    subject = run.agent or (run.chain_version.chain if run.chain_version else None)
    if subject is None or not is_among(run.principal_id, subject):
        return {}
    return {
        "decides": grant.decides,
        "decider_id": subject.owner_id,
        "decider_team_id": subject.team_id,
        "decider_role": grant.decider_role,
        "not_starter": grant.not_starter,
    }


def is_among(user_id: Any, subject: Any) -> bool:
    if subject.owner_id == user_id:
        return True
    return Membership.objects.filter(user_id=user_id, team_id=subject.team_id).exists() if subject.team_id else False
