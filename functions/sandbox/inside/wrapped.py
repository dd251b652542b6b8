"""Replacements for exports that would give too much access in their original form."""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Callable
from typing import Any

from .guards import SafeFormatter, class_without_meta, guarded_getattr
from .names import pattern_refusal

# Frames of the deepest recursion.
_DEEPEST = 20_000
_COPIED = ("__name__", "__qualname__", "__doc__", "__module__")


def wraps(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """functools.wraps for names and docs only: the original copies and updates any given attribute."""

    def mark(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        for name in _COPIED:
            value = getattr(function, name, None)
            if type(value) is str:
                setattr(wrapper, name, value)
        return wrapper

    return mark


def update_wrapper(wrapper: Callable[..., Any], wrapped: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(wrapped)(wrapper)


class attrgetter:  # noqa: N801 - stands in for operator's
    """operator.attrgetter for names that source may read."""

    def __init__(self, attr: str, /, *attrs: str) -> None:
        self.paths = [name.split(".") for name in (attr, *attrs)]

    def __call__(self, subject: Any, /) -> Any:
        values = tuple(functools.reduce(guarded_getattr, path, subject) for path in self.paths)
        return values if len(values) > 1 else values[0]


class methodcaller:  # noqa: N801 - stands in for operator's
    """operator.methodcaller for names that source may read."""

    def __init__(self, name: str, /, *arguments: Any, **keywords: Any) -> None:
        self.call = name, arguments, keywords

    def __call__(self, subject: Any, /) -> Any:
        name, arguments, keywords = self.call
        return guarded_getattr(subject, name)(*arguments, **keywords)


class ABCMeta:
    """The replacement for abc.ABCMeta in source; the compiler inserts `metaclass=ABCMeta` itself."""

    def __new__(cls, *arguments: Any) -> Any:
        raise TypeError("ABCMeta() creates classes from strings: use a class statement")


class cached_property:  # noqa: N801 - stands in for functools'
    """Does not read `__dict__`; the original does so for any object and any given name."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.func, self.attrname, self.__doc__ = function, "", function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.attrname = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = vars(instance)[self.attrname] = self.func(instance)
        return value


def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """dataclasses.dataclass, without positional patterns if a field has a name that patterns may
    not read.
    """
    # Only the extended profile has it.
    from dataclasses import dataclass as real

    def make(cls: Any) -> Any:
        own = vars(cls).get("__annotations__", {})
        if type(own) is not dict or any(isinstance(kind, typing.ForwardRef) for kind in own.values()):
            raise TypeError("dataclass(): declare the fields in a class statement")
        is_readable = not any(map(pattern_refusal, own))
        return real(cls, **options if is_readable else options | {"match_args": False})

    return make if cls is None else make(cls)


def deepcopy(x: Any, memo: Any = None) -> Any:
    """copy.deepcopy with its own memo: a memo passed by the caller would expose every copied
    object.
    """
    from copy import deepcopy as real

    return real(x)


def get_origin(tp: Any) -> Any:
    """typing.get_origin, which would return the real `type` for `type[int]`."""
    return class_without_meta(typing.get_origin(tp))


def purge(*arguments: Any, **keywords: Any) -> None:
    """re.purge without effect: the cache ends with the process."""


async def to_thread(*arguments: Any, **keywords: Any) -> None:
    """Report that threads are not available, instead of failing inside asyncio."""
    raise RuntimeError("functions have no threads: call it directly, or write it as an `async def`")


def run(main: Any, *, debug: bool | None = None) -> Any:
    """asyncio.run in a plain `def`, on the event loop without descriptors."""
    from .channel import Channel

    # Only the extended profile has it.
    from .loop import JobLoop, run_to_end

    return run_to_end(JobLoop(Channel()), main)


def leave(status: Any = None, /) -> None:
    """sys.exit."""
    raise SystemExit(status)


def set_recursion_limit(limit: int, /) -> None:
    """sys.setrecursionlimit, up to the depth that is safe for the C stack."""
    sys.setrecursionlimit(min(limit, _DEEPEST))


REPLACED: dict[str, dict[str, Any]] = {
    "dataclasses": {"dataclass": dataclass},
    "abc": {"ABCMeta": ABCMeta},
    "copy": {"deepcopy": deepcopy},
    "functools": {"wraps": wraps, "update_wrapper": update_wrapper, "cached_property": cached_property},
    "operator": {"attrgetter": attrgetter, "methodcaller": methodcaller},
    "string": {"Formatter": SafeFormatter},
    "sys": {"argv": ["function"], "exit": leave, "setrecursionlimit": set_recursion_limit},
    "re": {"purge": purge},
    "typing": {"get_origin": get_origin},
    "asyncio": {"to_thread": to_thread, "run": run},
}
