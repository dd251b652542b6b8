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
    from registry.llm.llms import KINDS  # imported when the checks run, not when they are registered

    from .toolsets import TOOLSETS

    lacking = sorted(set(Provider.Kind.values) - set(KINDS))
    spare = sorted(set(TOOLSETS) - {"caller"} - set(Tool.Kind.values))  # a caller's tools have no rows
    return [
        *(Error(f"Providers of kind “{kind}” have no model class.", id="registry.E001") for kind in lacking),
        *(Error(f"The toolset “{kind}” has no matching kind of tool.", id="registry.E002") for kind in spare),
    ]
