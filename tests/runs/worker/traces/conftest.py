"""Runs whose traces are sent."""

import pytest


@pytest.fixture
def send(alice_api, worker):
    from runs.models import Run

    def send(agent="helper", **headers):
        with worker.capture(execute=True):
            path = f"/api/v1/agents/{agent}/messages"
            answer = alice_api.post(path, {"message": "private words"}, headers={"Prefer": "respond-async", **headers})
        worker.work()
        return Run.objects.get(pk=answer.json()["run"]["id"])

    return send


@pytest.fixture
def helper(make_agent, make_tool, stub_provider, functions):
    return make_agent(tools=[make_tool()], provider=stub_provider)
