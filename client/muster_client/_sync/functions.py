# Generated from _async/functions.py by client/generate.py: change that file, then run `make reference`.
"""Stored functions and chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..requests import Request, drop_unset, new_key, segment
from .collections import Versioned
from .pages import Pages, keep_row
from .runs import Run

if TYPE_CHECKING:
    from .. import types


class Functions(Versioned["types.Function", "types.FunctionRequest", "types.PatchedFunctionRequest"]):
    """The working rows of functions, their tests, and calls of them."""

    def validate(self, draft: types.DraftRequest) -> types.Validated:
        """The problems of a source, each with its line. Nothing is stored."""
        request = Request("POST", "functions/validate", json=draft)
        verdict: types.Validated = self._transport.json(request)
        return verdict

    def try_draft(self, draft: types.TryRequest) -> types.Executed:
        """Run a draft once in the sandbox. Nothing is stored."""
        request = Request("POST", "functions/try", json=draft)
        execution: types.Executed = self._transport.json(request)
        return execution

    def execute(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, version: int | None = None
    ) -> types.Executed:
        """Run the live version. A function that fails is an answer with `status` and `error`."""
        body = drop_unset(arguments=dict(arguments or {}), version=version)
        execution: types.Executed = self._call("POST", name, "execute", json=body)
        return execution

    def run_tests(self, name: str, *, version: int | None = None) -> types.Verdicts:
        """Run the stored tests against the draft, or against a version."""
        body = drop_unset(version=version)
        verdicts: types.Verdicts = self._call("POST", name, "tests", "run", json=body)
        return verdicts

    def tests(self, name: str) -> Pages[types.FunctionTest]:
        path = f"functions/{segment(name)}/tests/"
        return Pages(self._transport, path, {}, keep_row)

    def add_test(self, name: str, test: types.FunctionTestRequest) -> types.FunctionTest:
        stored: types.FunctionTest = self._call("POST", name, "tests/", json=test)
        return stored


class Chains(Versioned["types.Chain", "types.ChainRequest", "types.PatchedChainRequest"]):
    """The working rows of chains, and their runs."""

    def start(
        self,
        name: str,
        input: Any = None,
        *,
        version: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Start a run and return it at once; `run.wait()` waits for its end."""
        headers = {"Idempotency-Key": idempotency_key or new_key(), "Prefer": "respond-async"}
        body = drop_unset(input=input, version=version, metadata=metadata, timeout=timeout)
        request = Request("POST", f"chains/{segment(name)}/runs", json=body, headers=headers)
        data = self._transport.json(request)
        return Run(self._transport, data)
