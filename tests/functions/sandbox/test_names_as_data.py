"""Ways round the language layer that use what the standard library does with names given as data."""

from __future__ import annotations

import pytest

from functions import sandbox
from functions.sandbox.inside import modules

LIMITS = sandbox.Limits(timeout_s=20, memory_mb=512)


def run(source):
    return sandbox.execute(source, allowed_imports=tuple(modules.EXPORTS), limits=LIMITS)


REFUSED = {
    "a module made an enum": (
        "TypeError",
        """
import enum
def main():
    X = enum.Enum._convert_('X', 'builtins', lambda n: n in ('eval', 'open'))
    return str(X.eval.value)
""",
    ),
    "another _evaluate put into the class of references": (
        "TypeError",
        """
import functools, json, typing
box = []
class C:
    x: 'int'
def main():
    def evaluate(self, names, *more):
        box.append(names)
        return int
    type(typing.get_args(typing.Optional['int'])[0])._evaluate = evaluate
    functools.update_wrapper(C, json.JSONDecoder)
    typing.get_type_hints(C)
    return str(box[0])
""",
    ),
    "the origin of an alias of type": (
        "TypeError",
        """
import typing
def main():
    t = typing.get_origin(typing.Type[int])
    return str(t) + str(t('X', (), {'__x__': 1}))
""",
    ),
    "an alias of type that says it can be called": (
        "TypeError",
        """
import typing
def main():
    a = type[int]
    a._inst = True
    return str(a('X', (), {'__x__': 1}))
""",
    ),
    "a class derived from typing.Type": (
        "TypeError",
        """
import typing
class M(typing.Type): pass
def main():
    return str(M('X', (), {'__x__': 1}))
""",
    ),
    "a class derived from an alias of type": (
        "TypeError",
        """
class M(type[int]): pass
def main():
    return str(M('X', (), {'__x__': 1}))
""",
    ),
    "a field of any name of an object behind an alias": (
        "KeyError",
        """
import dataclasses, types
@dataclasses.dataclass
class A:
    a: int = 0
FT = dataclasses.fields(A)[0]._field_type
class F:
    _field_type = FT
    init = True
    def __init__(self, name): self.name = name
class G(types.GenericAlias):
    __slots__ = ('__dataclass_fields__',)
    def __new__(cls, o=None, n='', **kw):
        box.update(kw)
        return types.GenericAlias.__new__(cls, o, (int,))
    def __getattr__(self, name):
        if name == '__dataclass_fields__':
            return {'a': F(want[0])}
        raise AttributeError(name)
box = {}; want = ['']
def read(o, name):
    want[0] = name
    try:
        dataclasses.replace(G(o))
    except AttributeError as e:
        pass
    except TypeError as e:
        pass
    return box[name]
def gen():
    yield str(read(it, 'gi_frame'))
it = gen()
def main():
    return next(it)
""",
    ),
    "the loop behind the loop of a job": (
        "RuntimeError",
        """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    kept = []
    class L(type(loop)):
        def __init__(self): super(type(loop), self).__init__()
        async def sock_connect(self, s, a):
            kept.append(s)
    l = L()
    await super(type(loop), l).create_connection(None, '127.0.0.1', 9)
    return str(kept)
""",
    ),
    "a second limit of printed text": (
        "TypeError",
        """
import sys
def main():
    sys.stdout.__init__(10**9)
    print('x' * 5_000_000)
""",
    ),
    "another name in the class of fields": (
        "TypeError",
        """
import dataclasses
EVIL = '"and[c.__name__ for c in().__class__.__base__.__subclasses__()]#'
@dataclasses.dataclass
class A:
    a: int = 0
def main():
    dataclasses.Field.name = EVIL
    @dataclasses.dataclass(init=False, eq=False, match_args=False)
    class B(A):
        pass
    return str(B.__repr__(B()))[:200]
""",
    ),
    "an alias that says that it has another name": (
        "TypeError",
        """
import copy, typing
def main():
    alias = typing.Literal['eval']
    alias._name = '__builtins__'
    return str(copy.copy(alias))
""",
    ),
    "a builder of documents that opens addresses": (
        "OSError",
        """
import xml.dom.minidom as minidom
def main():
    implementation = minidom.parseString('<a/>').implementation
    builder = implementation.createDOMBuilder(1, None)
    builder._get_entityResolver()
    return str(type(builder))
""",
    ),
    "the format of str as the default of a field": (
        "AttributeError",
        """
import dataclasses
@dataclasses.dataclass(init=False, eq=False)
class Text(str):
    format: object
def gen():
    yield 1
def main():
    return dataclasses.fields(Text)[0].default('{0.gi_frame}', gen())
""",
    ),
    "an attribute of any name set by a copy": (
        "AttributeError",
        """
import copy, types
class C: pass
def main():
    x = types.SimpleNamespace(**{'__reduce_ex__': lambda p: (lambda: C, (), (None, {'__getattribute__': lambda self, n: n}))})
    copy.deepcopy(x)
    return C().hello
""",
    ),
    "a class method bound by a dispatching one": (
        "TypeError",
        """
import functools
def main():
    def f(cls, *a): return cls
    s = functools.singledispatchmethod(classmethod(f))
    T = s.__get__(int)(1)
    return str(T) + str(T('X', (), {'__x__': 1}))
""",
    ),
    "another value for whether the printed text was cut": (
        "AttributeError",
        """
import sys
def main():
    sys.stdout.was_cut = object()
""",
    ),
}

HARMLESS = {
    "a name of sys that a redirection reads": (
        "Printed",
        """
import contextlib
class L(list):
    def append(self, x): self.kept = x; list.append(self, x)
def main():
    r = contextlib.redirect_stdout(None)
    r._stream = '_getframe'
    r._old_targets = box = L()
    r.__enter__()
    r.__exit__(None, None, None)
    return type(box.kept).__name__
""",
    ),
    "an annotation exchanged while it is checked": (
        "typing.Optional[int]",
        """
import typing
kind = typing.Optional['int']
class Exchange(dict):
    def keys(self):
        typing.get_args(kind)[0].__init__("().__class__.__base__")
        return []
def main():
    def f(x: kind): pass
    return str(typing.get_type_hints(f, Exchange(a=1))['x'])
""",
    ),
    "an alias compared with an alias of an object": (
        [False, False, 0],
        """
import typing
class Curious:
    seen = []
    def __eq__(self, other):
        self.seen.append(other)
        return True
def main():
    made = type(typing.Type[int])(Curious(), (int,))
    return [made == typing.Type[int], typing.Type[int] == made, len(Curious.seen)]
""",
    ),
    "a dispatcher of its own": (
        True,
        """
import functools
def main():
    seen = []
    class Method:
        def __get__(self, *more):
            return lambda *arguments: None
    class Dispatcher:
        def dispatch(self, kind):
            seen.append(kind)
            return Method()
    class C:
        method = functools.singledispatchmethod(lambda self, x: x)
    vars(C)['method'].dispatcher = Dispatcher()
    C().method(int)
    return seen[0] is type
""",
    ),
    "a mapping of its own for the content of messages": (
        0,
        """
import email.policy, email.message
class H:
    def __init__(self): self.seen = []
    def __contains__(self, k):
        self.seen.append(k)
        return False
def main():
    m = email.policy.default.content_manager
    m.set_handlers = h = H()
    try:
        m.set_content(email.message.EmailMessage(), int)
    except KeyError:
        return len(h.seen)
""",
    ),
    "the stack of a future in the loop's debug mode": (
        False,
        """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    h = loop.call_soon(print)
    f = loop.create_future()
    return '.py' in str([h._source_traceback, f._source_traceback])
""",
    ),
    "an object that only looks like a reference": (
        "<class 'int'>",
        """
import typing
class Code:
    def __getattr__(self, name):
        return ()
class Fake:
    codes = ["().__class__.__base__", Code()]
    def __getattr__(self, name):
        if name == '__forward_code__':
            return self.codes.pop()
        return {'__forward_arg__': 'int', '__forward_is_argument__': True}.get(name)
def main():
    return str(type(typing.get_args(typing.Optional['int'])[0])._evaluate(Fake(), {}, {}, frozenset()))
""",
    ),
}


@pytest.mark.parametrize(("kind", "source"), REFUSED.values(), ids=REFUSED)
def test_this_is_refused(kind, source):
    outcome = run(source)
    assert (outcome.status, outcome.error and outcome.error.type) == ("error", kind)


@pytest.mark.parametrize(("result", "source"), HARMLESS.values(), ids=HARMLESS)
def test_this_gives_what_the_function_may_have(result, source):
    outcome = run(source)
    assert (outcome.status, outcome.result) == ("ok", result)


ORDINARY = """
import contextlib, copy, dataclasses, io, pprint, typing
@dataclasses.dataclass
class Inner:
    format: str = "a"
    n: dataclasses.InitVar[int] = 1
@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    mro: tuple = ()
    kind: typing.ClassVar[int] = 3
class Slots:
    __slots__ = ("a", "__b")
    def __init__(self):
        self.a, self.__b = 1, [2]
    def b(self):
        return self.__b
class Names(dict[str, int]): pass
class Box(typing.Generic[typing.TypeVar("T")]): pass
class Node:
    next: "typing.Optional[Node]"
    other: "list['Node']"
def main():
    one = Outer(Inner())
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        print("inside")
    print("outside")
    copied = copy.deepcopy(Slots())
    hints = typing.get_type_hints(Node)
    return [
        dataclasses.asdict(dataclasses.replace(one, mro=(1,))),
        [field.name for field in dataclasses.fields(Outer)],
        pprint.pformat(one), out.getvalue(), copied.b(),
        typing.get_origin(type[int]) is type, typing.get_origin(dict[str, int]) is dict,
        hints["next"] == typing.Optional[Node], hints["other"] == list[Node],
        Names(a=1), type(Box[int]()).__name__, typing.List[int] == typing.List[int],
    ]
"""


def test_ordinary_uses_of_these_work():
    outcome = run(ORDINARY)
    assert outcome.status == "ok", (outcome.error, outcome.refusals)
    assert outcome.result == [
        {"inner": {"format": "a"}, "mro": [1]}, ["inner", "mro"],
        "Outer(inner=Inner(format='a'), mro=())", "inside\n", [2], True, True, True, True, {"a": 1}, "Box", True,
    ]  # fmt: skip
    assert outcome.printed == "outside\n"
