"""System checks of the registry: `manage.py check` reports missing models and toolsets before a
message meets them.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register

from agents.models import Provider, Tool


@register("registry")
def kinds_are_known(app_configs: Sequence[Any] | None = None, **_: Any) -> list[CheckMessage]:
    """Every provider kind has a model class, and every toolset belongs to a kind of tool."""
    # Imported when the checks run, not when they are registered.
    from registry.llm.llms import KINDS

    from .toolsets import TOOLSETS

    problems: list[CheckMessage] = []
    lacking = set(Provider.Kind.values) - set(KINDS)
    for kind in sorted(lacking):
        problems.append(Error(f"Providers of kind “{kind}” have no model class.", id="registry.E001"))
    # A caller's tools have no rows.
    spare = set(TOOLSETS) - {"caller"} - set(Tool.Kind.values)
    for kind in sorted(spare):
        problems.append(Error(f"The toolset “{kind}” has no matching kind of tool.", id="registry.E002"))
    return problems
