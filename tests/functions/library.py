"""Functions for the tests, made through the same door as an author's."""

from typing import Any

from functions import store
from functions.models import StoredFunction

ADD = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"


def make(user: Any, source: str = ADD, name: str = "add", **fields: Any) -> StoredFunction:
    function = StoredFunction(name=name, source=source, owner=user, **fields)
    return store.save_function(function, user=user)


def publish(user: Any, source: str = ADD, name: str = "add", **fields: Any) -> StoredFunction:
    function = make(user, source, name, **fields)
    store.publish_function(function, user=user)
    return function
