"""Write AgentDojo's suites as JSON. Runs in the environment that has `agentdojo`; see benchmarks/agentdojo.py."""

import datetime
import json
import sys
import warnings
from typing import Any

from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from pydantic import BaseModel

VERSION = "v1"


def export() -> dict[str, Any]:
    return {name: export_suite(suite) for name, suite in get_suites(VERSION).items()}


def export_suite(suite: Any) -> dict[str, Any]:
    tools = {
        tool.name: {"description": tool.description, "schema": tool.parameters.model_json_schema()}
        for tool in suite.tools
    }
    cases = [(task, None) for task in suite.user_tasks.values()]
    cases += [(task, other) for task in suite.user_tasks.values() for other in suite.injection_tasks.values()]
    return {"tools": tools, "cases": [export_case(suite, task, other) for task, other in cases]}


def export_case(suite: Any, task: Any, injection: Any) -> dict[str, Any]:
    """One task, alone or with one injection in every place where this task reads it, with what each call returns."""
    vectors = suite.get_injection_vector_defaults()
    goal = injection.GOAL if injection else ""
    placed = dict.fromkeys(vectors, goal) if injection else vectors
    environment = task.init_environment(suite.load_and_inject_default_environment(placed))
    honest = call_all(suite, environment, task.ground_truth(environment))
    bad = call_all(suite, environment, injection.ground_truth(environment)) if injection else []
    return {
        "task": task.ID, "prompt": task.PROMPT, "calls": honest, "injection": injection.ID if injection else None,
        "goal": goal, "injected": bad,
    }  # fmt: skip


def call_all(suite: Any, environment: Any, calls: list[FunctionCall]) -> list[dict[str, Any]]:
    runtime = FunctionsRuntime(suite.tools)
    done = []
    for call in calls:
        arguments = json.loads(json.dumps(dict(call.args), default=as_json))
        result, error = runtime.run_function(environment, call.function, call.args)
        done.append({"name": call.function, "arguments": arguments, "result": error or as_json(result)})
    return done


def as_json(value: Any) -> Any:
    """A result as JSON: models as objects, times as their ISO text."""
    if isinstance(value, BaseModel):
        return {name: as_json(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [as_json(one) for one in value]
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(export(), sys.stdout, ensure_ascii=False, sort_keys=True)
