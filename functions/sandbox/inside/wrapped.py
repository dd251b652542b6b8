"""Stand-ins for exports that would reach too far as they are."""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable
from typing import Any

from .names import attribute_refusal

_COPIED = ("__name__", "__qualname__", "__doc__", "__module__")


def wraps(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """functools.wraps for names and docs only: the real one copies and updates any attribute it is told to."""

    def mark(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        for name in _COPIED:
            value = getattr(function, name, None)
            if type(value) is str:
                setattr(wrapper, name, value)
        return wrapper

    return mark


class cached_property:  # noqa: N801 - stands in for functools'
    """Does not look into `__dict__`, which the real one does for any object and any name it is told."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.func, self.attrname, self.__doc__ = function, "", function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.attrname = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = vars(instance)[self.attrname] = self.func(instance)
        return value


_DOTTED = re.compile(r"[\w.\[\]|, '\"]+")


def singledispatch(function: Callable[..., Any]) -> Any:
    """functools.singledispatch, whose register() evaluates annotations that are text: only names may stand there."""
    made = functools.singledispatch(function)
    real = made.register

    def register(cls: Any, func: Any = None) -> Any:
        for text in getattr(cls if func is None else func, "__annotations__", {}).values():
            if isinstance(text, str) and not (_DOTTED.fullmatch(text) and not any(map(attribute_refusal, names(text)))):
                raise TypeError("register(): an annotation that is text must name a class")
        return real(cls, func)

    made.register = register  # type: ignore[method-assign]
    return made


def names(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """dataclasses.dataclass, which writes the names of fields into source: only names may stand there."""
    from dataclasses import dataclass as real  # only the extended profile has it

    def make(cls: Any) -> Any:
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if type(name) is not str or not name.isidentifier() or isinstance(kind, typing.ForwardRef):
                raise TypeError("dataclass(): write the fields into a class statement")
        return real(cls, **options)

    return make if cls is None else make(cls)


def purge(*arguments: Any, **keywords: Any) -> None:
    """re.purge without effect: the cache dies with the process."""


async def to_thread(*arguments: Any, **keywords: Any) -> None:
    """Threads do not exist here; say so instead of failing in the depths of asyncio."""
    raise RuntimeError("functions have no threads: call it directly, or write it as an `async def`")


def run(main: Any, *, debug: bool | None = None) -> Any:
    """asyncio.run in a plain `def`, on the loop that owns no descriptor."""
    from .channel import Channel
    from .loop import JobLoop, finish  # only the extended profile has it

    return finish(JobLoop(Channel()), main)


REPLACED: dict[str, dict[str, Any]] = {
    "dataclasses": {"dataclass": dataclass},
    "functools": {"wraps": wraps, "cached_property": cached_property, "singledispatch": singledispatch},
    "re": {"purge": purge},
    "asyncio": {"to_thread": to_thread, "run": run},
}
