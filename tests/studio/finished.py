"""A finished run to look at on the pages."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.models import Approval, Message, ModelCall, Run, Session, ToolCallRecord


@pytest.fixture
def version(agent, alice):
    return agent.publish(author=alice)


@pytest.fixture
def make_run(agent, version, alice):
    """A run of Alice, finished unless `status` is a live one: a message, a model call, a tool call and its approval."""

    def make(number=0, status="succeeded", **more):
        session = Session.objects.create(owner=alice, agent=agent, title=f"Books {number}", last_seq=1)
        now = timezone.now()
        end = now + timedelta(seconds=2) if status in Run.DONE else None
        run = Run.objects.create(
            principal=alice, agent=agent, version=version, session=session, status=status, started_at=now,
            finished_at=end, **more,
        )  # fmt: skip
        content = [{"type": "text", "text": "Find Moby-Dick"}]
        Message.objects.create(session=session, seq=1, role="user", run=run, content=content)
        ModelCall.objects.create(
            run=run, turn=1, provider="offline", started_at=now, wall_ms=5, request={"secret": "raw words"}
        )
        call = ToolCallRecord.objects.create(
            run=run,
            name="lookup",
            arguments={"title": "Moby-Dick"},
            outcome="ok",
            result=["shelf 3"],
            started_at=now,
            finished_at=now,
        )
        Approval.objects.create(
            run=run, call=call, tool="lookup", arguments={"title": "Moby-Dick"}, expires_at=now + timedelta(hours=1)
        )
        return run

    return make
