"""An approval that waits for somebody, in a run of Alice's."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.models import Agent, Provider, Tool
from runs.models import Approval, InputRequest
from tests.fakes import calls, says


@pytest.fixture
def asked(
    worker: Any, alice: Any, make_agent: Any, make_tool: Any, stub_provider: Any, stub: Any, functions: Any
) -> Any:
    """`asked(decides="team", …)`: an open approval that has waited for a minute."""

    def start(team: Any = None, **grant: Any) -> Approval:
        agent = make_agent(tools=[make_tool(effect="sends_out")], provider=stub_provider, timeout=300)
        for model in (Agent, Tool, Provider):
            model.objects.update(owner=agent.owner, team=team)
        agent.grants.update(mode="ask", **grant)
        agent.refresh_from_db()
        stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
        return aged(worker.send_message(alice, "add", agent).approvals.get())

    return start


def aged(row: Any) -> Any:
    """As if it had been made a minute ago."""
    type(row).objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(minutes=1))
    row.refresh_from_db()
    return row


@pytest.fixture
def question(asked: Any) -> InputRequest:
    """A question to Alice that has waited for a minute."""
    approval = asked()
    run, call = approval.run, approval.call
    approval.delete()
    soon = timezone.now() + timedelta(hours=1)
    return aged(
        InputRequest.objects.create(run=run, call=call, kind="form", name="ask", prompt="Which?", expires_at=soon)
    )
