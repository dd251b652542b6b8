"""Chains for tests: built from dicts, published, run to their end by the worker of tests/worker.py."""

import pytest

from agents.models import Chain, Tool, ToolGrant
from runs.intake import messages as intake
from runs.models import Run, StepRun


@pytest.fixture
def make_chain(alice, make_tool):
    """A published chain of these steps; every tool a step names is made and granted where it is missing."""

    def make(*steps, name="digest", grants=None, owner=alice, **fields):
        chain = Chain.objects.create(owner=owner, name=name, **fields)
        chain.replace_steps(list(steps))
        modes = grants or {}
        for tool_name in {step["tool"] for step in steps if step.get("tool")}:
            tool = Tool.objects.filter(name=tool_name).first()
            if tool is None:
                tool = make_tool(tool_name, input_schema={"type": "object"})
            ToolGrant.objects.create(chain=chain, tool=tool, mode=modes.get(tool_name, "allow"))
        chain.publish(author=owner)
        return Chain.objects.get(pk=chain.pk)

    return make


@pytest.fixture
def run_chain(worker, alice):
    """The run of a chain, worked on until nothing is left to do."""

    def run(chain, input=None, *, user=alice, **more):
        with worker.capture(execute=True):
            started = intake.start_chain(user=user, chain=chain, input=input, **more)
        worker.work(limit=2000)
        return Run.objects.get(pk=started.pk)

    return run


def step_rows(run):
    """{key: status} of the steps themselves."""
    return {row.key: row.status for row in StepRun.objects.filter(run=run, item=-1)}
