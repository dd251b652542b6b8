"""System checks: what `manage.py check` says about the registry before a message finds out."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register

from agents.models import Provider, Tool


@register("registry")
def kinds_are_known(app_configs: Sequence[Any] | None = None, **_: Any) -> list[CheckMessage]:
    """Every kind of provider that a row may have can be built; no toolset stands for a kind that no row has."""
    from registry.llm.llms import KINDS  # read when checks run, not when they are registered

    from .toolsets import TOOLSETS

    lacking = sorted(set(Provider.Kind.values) - set(KINDS))
    spare = sorted(set(TOOLSETS) - set(Tool.Kind.values))
    return [
        *(Error(f"No model is made for providers of kind “{kind}”.", id="registry.E001") for kind in lacking),
        *(Error(f"The toolset “{kind}” has no kind of tool.", id="registry.E002") for kind in spare),
    ]
