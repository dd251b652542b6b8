"""Callers of a function outside a run: an author who tries it, or a program that executes it."""

from collections.abc import Iterator, Mapping
from typing import Any

from agents.exceptions import Invalid
from functions.execution import Callback, Caller, Ready
from functions.host import Host
from functions.models import StoredFunction


class NoCallbacks(Mapping[str, Callback]):
    """Grants nothing, and records which names were requested."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __bool__(self) -> bool:
        """True although the mapping is empty, so that it still sees which names are requested."""
        return True

    def __contains__(self, name: object) -> bool:
        self.asked.append(str(name)[:64])
        return False

    def __getitem__(self, name: str) -> Callback:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def alone(user: Any, version: Ready) -> Caller:
    """The caller for one call by this user outside a run: no callbacks, and values that last as long as the call."""
    spec = version.spec
    host = Host(
        user=user,
        function=version.function_id,
        allowed_hosts=tuple(spec.allowed_hosts),
        secret_names=list_live_secrets(user, version),
    )
    context: dict[str, Any] = {}
    if spec.requires_context:
        context = {"run": None, "agent": "", "user": user.pk, "session": None, "chain": "", "step": "", "metadata": {}}
    return Caller(user_id=user.pk, data=context, grants=NoCallbacks(), host=host)


def list_live_secrets(user: Any, version: Ready) -> tuple[str, ...]:
    """The names of the version's secrets that the live version has too.

    For a draft, the live version is that of this user's function with the same name.

    Without this check, a key that may only run functions could reach any secret through a draft or an old version.
    """
    names = version.spec.secrets
    if not names:
        return ()
    published = StoredFunction.objects.filter(published__isnull=False)
    if version.number:
        rows = published.filter(pk=version.function_id)
    else:
        rows = published.filter(owner=user, name=version.name)
    live_spec = rows.values_list("published__spec", flat=True).first() or {}
    live_names = live_spec.get("secrets", ())
    return tuple(name for name in names if name in live_names)


def refuse_callbacks(caller: Caller) -> None:
    """Raises Invalid if the function requested a callback."""
    requested_names = getattr(caller.grants, "asked", [])
    if requested_names:
        raise Invalid(
            f"The function called “{requested_names[0]}”, but callbacks require a run.",
            code="callback_needs_a_run",
            hint="Call it from an agent or a chain, or try it without ctx.call.",
        )
