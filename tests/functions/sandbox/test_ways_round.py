"""The language layer alone, without the kernel's layers: known ways round it, and what can be reached through names."""

from __future__ import annotations

import pytest

from functions import sandbox
from functions.sandbox.inside.confine import CORE, STRONG
from tests.corpus import attack, reading

STEALING = [case for case in reading.read("hostile") if case.kind in ("steal", "twice")]
LIMITS = sandbox.Limits(timeout_s=20, memory_mb=512)


@pytest.fixture(scope="module")
def unconfined():
    """Only for these tests: stored code that gets round the language layer here really reads the file."""
    pool = sandbox.Pool(spares=2, without_layers=(CORE | STRONG) - {"process", "environment"}, run_regardless=True)
    yield pool
    pool.close()


@pytest.fixture
def constants(tmp_path):
    return attack.prize(tmp_path)


def test_the_language_layer_alone_lets_no_known_attack_read_a_file(unconfined, constants):
    outcomes = attack.attack(unconfined, STEALING, constants, mode="language")
    found = {case.id: attack.achieved(case, outcomes[case.id], constants) for case in STEALING}
    assert [name for name, what in found.items() if "the secret came out" in what] == []


def test_without_the_language_layer_these_attacks_would_read_it(unconfined, constants):
    cases = [case for case in STEALING if case.group == "dunders"]
    outcomes = attack.attack(unconfined, cases, constants, mode="kernel")
    stolen = [case for case in cases if attack.achieved(case, outcomes[case.id], constants)]
    assert len(stolen) > len(cases) / 2


@pytest.mark.parametrize(
    "body",
    [
        "def main(ctx):\n    ctx._requester._channel.send(b'X', b'{}')",
        "def main(ctx):\n    return vars(ctx)",
        "def main(ctx):\n    return [getattr(ctx, name)._channel for name in dir(ctx)]",
        "def main(ctx):\n    getattr(ctx, '__req' + 'uester__').send()",
        "import asyncio\nasync def main():\n    asyncio.current_task().get_loop()._selector._channel.send(b'X', b'')",
        "import asyncio\nasync def main():\n    asyncio.Future()._loop.requester.tell('log', {})",
        "import asyncio\nasync def main():\n    return vars(asyncio.Future()._loop._selector)",
        "import asyncio\nasync def main():\n    await asyncio.Future()._loop.create_connection(None, '127.0.0.1', 80)",
        "import asyncio\nasync def main():\n    await asyncio.Future()._loop.subprocess_shell(None, 'id')",
        "import asyncio\nasync def main():\n    await asyncio.Future()._loop.run_in_executor(None, print)",
    ],
)
def test_the_machinery_behind_the_context_and_the_loop_cannot_be_used(body):
    outcome = sandbox.execute(f"{body}\n", allowed_imports=("asyncio",), context={}, limits=LIMITS)
    assert (outcome.status, outcome.error.type) in {
        ("error", "AttributeError"), ("error", "RuntimeError"), ("error", "TypeError")
    }  # fmt: skip


def test_a_logged_traceback_names_no_file_of_the_server():
    source = (
        "import configparser, logging, sys\n"
        "def main():\n"
        "    try:\n"
        "        configparser.ConfigParser().read_string('x')\n"
        "    except configparser.Error:\n"
        "        return logging.Formatter().formatException(sys.exc_info())\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("configparser", "logging", "sys"), limits=LIMITS)
    assert "MissingSectionHeaderError" in outcome.result
    assert 'File "<function>", line 4' in outcome.result
    assert ".py" not in outcome.result


@pytest.mark.parametrize(
    "body",
    [
        "asyncio.current_task().print_stack(file=out)",
        "print(asyncio.current_task().get_stack(), file=out)",
        "logger().warning('x', stack_info=True)",
        "print(logger().findCaller(stack_info=True), file=out)",
        "print(summary().extract([(f, 1) for f in asyncio.current_task().get_stack()], capture_locals=True), file=out)",
    ],
)
def test_no_stack_shows_the_frames_of_the_runtime(body):
    source = (
        "import asyncio, io, logging, traceback\n"
        "out = io.StringIO()\n"
        "def summary():\n"
        "    return type(traceback.extract_tb(None))\n"
        "def logger():\n"
        "    found = logging.getLogger('own')\n"
        "    found.addHandler(logging.StreamHandler(out))\n"
        "    return found\n"
        "async def main():\n"
        f"    {body}\n"
        "    return out.getvalue()\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("asyncio", "io", "logging", "traceback"), limits=LIMITS)
    assert outcome.status == "ok", outcome.error
    assert ".py" not in outcome.result


@pytest.mark.parametrize(
    "rename",
    [
        "field.name = EVIL",
        "setattr(field, 'name', EVIL)",
        "field.__setattr__('name', EVIL)",
        "object.__setattr__(field, 'name', EVIL)",
        "super(type(field), field).__setattr__('name', EVIL)",
        "Frozen.__init__(field, EVIL)",
    ],
)
def test_no_way_to_rename_a_field_puts_source_into_a_data_class(rename):
    """The names of inherited fields are inserted into the source of `__repr__`, which is not restricted."""
    source = (
        "import dataclasses\n"
        """EVIL = '"and[c.__name__ for c in().__class__.__base__.__subclasses__()]#'\n"""
        "@dataclasses.dataclass(frozen=True)\n"
        "class Frozen:\n"
        "    name: str\n"
        "@dataclasses.dataclass\n"
        "class A:\n"
        "    a: int = 0\n"
        "def main():\n"
        "    field = dataclasses.fields(A)[0]\n"
        f"    {rename}\n"
        "    @dataclasses.dataclass(init=False, eq=False)\n"
        "    class B(A):\n"
        "        pass\n"
        "    return str(B.__repr__(B()))\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("dataclasses",), limits=LIMITS)
    assert (outcome.status, outcome.error and outcome.error.type) == ("error", "ValueError")


@pytest.mark.parametrize(
    ("base", "method"),
    [
        ("dataclasses.Field", "name(self): return 'x'"),
        ("type(typing.get_args(typing.Optional['int'])[0]), _root=True", "_evaluate(self, *names): return int"),
    ],
)
def test_what_checks_names_cannot_be_replaced_in_a_class_of_its_kind(base, method):
    """A field's name is inserted into source; a reference is given the names of modules, hooks of the guards included."""
    source = (
        f"import dataclasses, typing\ndef main():\n    class Own({base}):\n        def {method}\n    return 'made'\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("dataclasses", "typing"), limits=LIMITS)
    assert (outcome.status, outcome.error and outcome.error.type) == ("error", "TypeError")
    assert "cannot be the base of a class" in outcome.error.message


WIDE = {name: chr(ord(name[0]) + 0xFEE0) + name[1:] for name in ("gi_frame", "f_back", "f_builtins", "mro")}


@pytest.mark.parametrize(
    "text",
    [
        "g.{gi_frame}.{f_back}.{f_back}.{f_builtins}['eval']",
        "[x for x in [g.{gi_frame}.{f_back}.{f_back}.{f_builtins}['eval']]][0]",
        "g.{gi_frame}.{f_builtins}['print']",
        "C.{mro}",
    ],
)
def test_an_annotation_in_wide_letters_is_the_name_that_the_compiler_makes_of_it(text):
    """A frame further up has the real builtins, so an annotation that reads a frame is a way to `eval` and `open`."""
    source = (
        "import typing\n"
        "class C: pass\n"
        "box = []\n"
        "def gen(f):\n"
        "    yield typing.get_args(typing.get_type_hints(f, {'g': box[0], 'C': C})['x'])\n"
        "def main():\n"
        f"    kind = typing.Optional[{text.format(**WIDE)!r}]\n"
        "    def f(x: kind): pass\n"
        "    box.append(gen(f))\n"
        "    return str(next(box[0]))\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("typing",), limits=LIMITS)
    assert (outcome.status, outcome.error and outcome.error.message) == (
        "error",
        "an annotation given as text must name a class",
    )


@pytest.mark.parametrize("more", ["", ", {}, None", ", None, {}", ", include_extras=True"])
def test_an_annotation_of_a_class_made_by_a_library_names_nothing_of_that_library(more):
    """A named tuple belongs to the module that calls for it, here json.decoder, which has sys within reach."""
    source = (
        "import functools, json, typing\n"
        "def main():\n"
        "    make = functools.partial(typing.NamedTuple, 'X')\n"
        "    text = json.dumps({'a': \"re.enum.sys.modules['builtins'].eval\"})\n"
        f"    return str(typing.get_type_hints(json.loads(text, object_pairs_hook=make){more}))\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("functools", "json", "typing"), limits=LIMITS)
    assert outcome.status == "error" and outcome.error.type in ("TypeError", "NameError")


def test_annotations_as_text_of_own_classes_are_read():
    source = (
        "import typing\n"
        "class Base(typing.NamedTuple):\n"
        "    a: 'int'\n"
        "class Own:\n"
        "    b: 'typing.Optional[Base]'\n"
        "def main():\n"
        "    return [str(typing.get_type_hints(one)) for one in (Base, Own)]\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("typing",), limits=LIMITS)
    assert outcome.status == "ok", outcome.error


def test_an_annotation_as_text_may_have_letters_of_any_language():
    source = (
        "import typing\n"
        "class Größe: pass\n"
        "def f(x: 'list[Größe]', y: 'typing.Optional[Größe]'): pass\n"
        "def main():\n"
        "    return str(typing.get_type_hints(f)['x'])\n"
    )
    outcome = sandbox.execute(source, allowed_imports=("typing",), limits=LIMITS)
    assert (outcome.status, "Größe" in str(outcome.result)) == ("ok", True)


WALK = """
import importlib, sys, types
def own_module(value):
    try:
        return value.__module__
    except BaseException:
        return ""
def main(modules):
    facades, names = sys.modules["inside.facades"], sys.modules["inside.names"]
    fetch = facades.importer(frozenset(modules), is_kept=True)
    queue = [(name, fetch(name, None, None, ("x",), 0)) for name in modules]
    made = [(f"{name}.{key}()", value) for name, facade in queue for key, value in vars(facade).items()
            if isinstance(value, type) and key not in ("Queue", "TestCase")]
    for path, kind in made:
        for arguments in ((), ("a",), (1,), ([1],)):
            try:
                queue.append((path, kind(*arguments)))
                break
            except BaseException:
                pass
    secret = {id(one): name for name, one in [("open", open), ("exec", exec), ("eval", eval), ("compile", compile),
              ("__import__", __import__), ("type", type), ("globals", globals), ("input", input)]}
    kinds = (types.FrameType, types.CodeType, types.TracebackType)
    seen, found = set(), {}
    while queue:
        path, value = queue.pop()
        if id(value) in seen or len(path) > 160:
            continue
        seen.add(id(value))
        if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            found[path] = f"module {value.__name__}"
            continue
        if isinstance(value, kinds) or id(value) in secret or own_module(value) in ("posix", "_posixsubprocess"):
            found[path] = repr(value)[:60]
            continue
        if type(value) is dict:
            queue += [(f"{path}[{key!r:.20}]", one) for key, one in list(value.items())[:300]]
        elif isinstance(value, (list, tuple, set, frozenset)):
            queue += [(f"{path}[]", one) for one in list(value)[:300]]
        for name in dir(value):
            if names.attribute_refusal(name) is None and name not in names.RISKY_ATTRIBUTES:
                try:
                    queue.append((f"{path}.{name}", getattr(value, name)))
                except BaseException:
                    pass
    return found, len(seen)
"""


def test_no_readable_name_of_an_importable_module_leads_to_the_interpreter():
    arguments = {"modules": sorted(sandbox.IMPORTABLE)}
    limits = sandbox.Limits(timeout_s=60, memory_mb=1024, output_kb=4096)
    outcome = sandbox.execute(WALK, arguments, safe_mode=False, limits=limits)
    found, walked = outcome.result
    assert walked > 3000
    assert found == {}
