"""Who calls a function outside a run: an author who tries it, a program that executes it."""

from collections.abc import Iterator, Mapping
from typing import Any

from agents.exceptions import Invalid
from functions.execution import Callback, Caller, Ready
from functions.host import Host
from functions.models import StoredFunction


class NoCallbacks(Mapping[str, Callback]):
    """Grants nothing, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __bool__(self) -> bool:
        """Empty, and still to be asked."""
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
    """This person, without a run: no callbacks; values live as long as the call."""
    spec = version.spec
    names = tuple(spec.secrets) if version.number else published_secrets(user, version)
    host = Host(
        user=user, function=version.function_id, allowed_hosts=tuple(spec.allowed_hosts), secret_names=names
    )  # fmt: skip
    data = {"run": None, "agent": "", "user": user.pk, "session": None, "chain": "", "step": "", "metadata": {}}
    return Caller(user_id=user.pk, data=data if spec.requires_context else {}, grants=NoCallbacks(), host=host)


def published_secrets(user: Any, draft: Ready) -> tuple[str, ...]:
    """What a draft may reach: those of its secrets that the published version of this person's function names too.

    A key that may only run functions could otherwise name any secret in a draft of its own.
    """
    rows = StoredFunction.objects.filter(owner=user, name=draft.name, published__isnull=False)
    spec = rows.values_list("published__spec", flat=True).first() or {}
    return tuple(name for name in draft.spec.secrets if name in spec.get("secrets", ()))


def refuse_callbacks(caller: Caller) -> None:
    """Raises Invalid when the function asked for a callback."""
    asked = getattr(caller.grants, "asked", [])
    if asked:
        raise Invalid(
            f"The function called “{asked[0]}”, and callbacks need a run.",
            code="callback_needs_a_run",
            hint="Let an agent or a chain call it, or try it without ctx.call.",
        )
