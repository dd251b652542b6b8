"""Removes the host's paths and names from everything that was loaded, so that stored code learns nothing of them.

Modules, tracebacks and libraries remember where they were loaded from. Those paths contain names of people,
projects and machines, and whatever code sees can be printed, stored, or shown to a model. Nothing can be loaded
any more when this runs, so the paths serve nothing but messages.
"""

from __future__ import annotations

import _imp
import collections
import functools
import gc
import os
import pwd
import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, NamedTuple

PYTHON, OURS, LIBRARIES, HOME = "/usr", "/usr/lib/muster", "/usr/lib/libraries", "/home/nobody"
_SAME_EVERYWHERE = ("", "/", "/usr", "/usr/local", "/usr/bin", "/usr/local/bin")
_CACHED = type(functools.lru_cache(len))


class _Places(NamedTuple):
    """Directories of the host, and what stands for each."""

    pattern: re.Pattern[str]
    stand_ins: dict[str, str]


def hide_host(libraries: Iterable[str] = ()) -> None:
    """In the zygote, when all modules are loaded: nothing that Python can read names the host."""
    _forget_machine()
    places = _find_places(libraries)
    for name, value in os.environ.items():
        os.environ[name] = _hide(value, places)
    left_alone = {id(places.stand_ins)}
    for owner in gc.get_objects():
        if isinstance(owner, type):
            # Its dictionary is changed through the class, which keeps copies of the values.
            left_alone.update(id(one) for one in gc.get_referents(owner) if type(one) is dict)
            _hide_in_class(owner, places)
    for owner in gc.get_objects():
        if id(owner) in left_alone:
            continue
        if isinstance(owner, types.FunctionType):
            _hide_in_code(owner.__code__, places)
        if isinstance(owner, PurePath):
            _hide_in_path(owner, places)
        elif _holds_host(owner, places):
            _hide_in(owner, places)


def describe_failure(error: BaseException) -> str:
    """What may be told of a failure of the host: the system's own texts name paths and modules' places."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or type(error).__name__
    if isinstance(error, ImportError) and error.name:
        return f"{error.name} cannot be loaded"
    return str(error) or type(error).__name__


def _forget_machine() -> None:
    """Libraries ask for the name of the machine when they are loaded, and it is kept."""
    platform: Any = sys.modules.get("platform")
    if platform is not None:
        platform._uname_cache = None
        platform._platform_cache.clear()


def _find_places(libraries: Iterable[str]) -> _Places:
    """The directories from which modules were loaded, and the home of who started the server."""
    places = dict.fromkeys(sys.path, LIBRARIES)
    for name in libraries:
        origin = os.path.realpath(sys.modules[name].__file__ or "/")
        is_package = hasattr(sys.modules[name], "__path__")
        places[os.path.dirname(os.path.dirname(origin) if is_package else origin)] = LIBRARIES
    for path in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix):
        inside = [one for one in places if one.startswith(f"{path}/")]
        for one in [*inside, path]:
            places[one] = PYTHON + one.removeprefix(path)
    places[os.path.dirname(sys.executable)] = f"{PYTHON}/bin"
    places[os.path.dirname(os.path.dirname(__file__))] = OURS
    places.setdefault(_find_home(), HOME)
    for path, stand_in in list(places.items()):
        places.setdefault(os.path.realpath(path), stand_in)
    hidden = {path: stand_in for path, stand_in in places.items() if path not in _SAME_EVERYWHERE}
    # Longer ones come first, since one can be inside another.
    paths = "|".join(map(re.escape, sorted(hidden, key=len, reverse=True))) or "(?!)"
    pattern = re.compile(rf"(?:(?<!\w)|(?<=-[IL]))(?:{paths})(?![\w-])")
    re.purge()  # it keeps patterns, and this one names the host
    return _Places(pattern, hidden)


def _find_home() -> str:
    """Not from the environment, which is that of the sandbox."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _holds_host(owner: Any, places: _Places) -> bool:
    for value in gc.get_referents(owner):
        kind = type(value)  # there are millions: the usual ones are told apart without a call
        if kind is str:
            if "/" in value and places.pattern.search(value):
                return True
        elif (kind is dict or isinstance(value, str | tuple)) and _names_host(value, places):
            return True
    return False


def _names_host(value: Any, places: _Places) -> bool:
    """Whether the value, or what only this value leads to, contains a path of the host."""
    if isinstance(value, str):
        return "/" in value and places.pattern.search(value) is not None
    if isinstance(value, tuple):
        return any(_names_host(one, places) for one in value)
    if type(value) is dict and not gc.is_tracked(value):  # the collector does not list one that holds only texts
        return any(_names_host(one, places) for one in (*value, *value.values()))
    return False


def _hide(value: Any, places: _Places) -> Any:
    """The value without paths of the host; the same object if it has none."""
    if not _names_host(value, places):
        return value
    if type(value) is dict:
        _hide_in_dict(value, places)
        return value
    if isinstance(value, tuple):
        parts = [_hide(one, places) for one in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    text = places.pattern.sub(lambda match: places.stand_ins[match[0]], value)
    if type(value) is str:
        return text
    hidden = str.__new__(type(value), text)
    for name, attribute in getattr(value, "__dict__", {}).items():
        setattr(hidden, name, attribute)
    return hidden


def _hide_in_code(code: types.CodeType, places: _Places) -> None:
    """Tracebacks read the name of the file from here."""
    if _names_host(code.co_filename, places):
        _imp._fix_co_filename(code, _hide(code.co_filename, places))  # type: ignore[attr-defined]


def _hide_in(owner: Any, places: _Places) -> None:
    if isinstance(owner, dict):
        _hide_in_dict(owner, places)
    elif isinstance(owner, list | collections.deque):
        for index, value in enumerate(owner):
            owner[index] = _hide(value, places)
    elif isinstance(owner, set):
        values = [_hide(value, places) for value in owner]
        owner.clear()
        owner.update(values)
    elif isinstance(owner, types.CellType):
        owner.cell_contents = _hide(owner.cell_contents, places)
    elif isinstance(owner, types.FunctionType):
        owner.__defaults__ = _hide(owner.__defaults__, places)
        if owner.__kwdefaults__:
            _hide_in_dict(owner.__kwdefaults__, places)
    elif isinstance(owner, _CACHED):
        owner.cache_clear()
    elif not isinstance(owner, tuple | types.FrameType):
        _hide_in_attributes(owner, places)


def _hide_in_dict(owner: dict[Any, Any], places: _Places) -> None:
    for key, value in list(owner.items()):
        hidden = _hide(key, places)
        if hidden is not key:
            dict.pop(owner, key)
        if hidden is not key or _names_host(value, places):
            dict.__setitem__(owner, hidden, _hide(value, places))


def _hide_in_class(owner: type, places: _Places) -> None:
    for name, value in list(vars(owner).items()):
        if _names_host(value, places):
            _change(type.__setattr__, owner, name, _hide(value, places))


def _hide_in_attributes(owner: Any, places: _Places) -> None:
    kind: Any = type(owner)
    for name in (*getattr(owner, "__dict__", ()), *_list_slots(kind)):
        value = _read(owner, name)
        if _names_host(value, places):
            _change(object.__setattr__, owner, name, _hide(value, places))


def _change(change: Callable[[Any, str, Any], None], owner: Any, name: str, value: Any) -> None:
    try:
        change(owner, name, value)
    except (AttributeError, TypeError):
        return  # it belongs to C code, which keeps no paths of its own


def _hide_in_path(path: PurePath, places: _Places) -> None:
    """It keeps its text in several slots, each part of it in others."""
    hidden = _hide(str(path), places)
    other = type(path)(hidden)
    for name in _list_slots(type(path)) if hidden != str(path) else ():
        if hasattr(other, name):
            setattr(path, name, getattr(other, name))
        elif hasattr(path, name):
            delattr(path, name)


@functools.cache
def _list_slots(kind: type) -> tuple[str, ...]:
    descriptors = [vars(one).items() for one in kind.__mro__]
    return tuple(name for items in descriptors for name, one in items if isinstance(one, types.MemberDescriptorType))


def _read(owner: Any, name: str) -> Any:
    try:
        return object.__getattribute__(owner, name)
    except AttributeError:
        return None
