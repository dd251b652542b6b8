"""The names that stored code may use, decided in one place for the compiler and the run-time
guards.
"""

from __future__ import annotations

from typing import NamedTuple


def split_words(text: str) -> list[str]:
    """The words of a table written as text."""
    return text.split()


# Names that are not valid in source, so that nothing can shadow them.
HOOK, PATTERN_HOOK, ABSTRACT_HOOK = "<getattr>", "<patterns>", "<ABCMeta>"
RISKY_ATTRIBUTES = frozenset(
    split_words("""
    format format_map mro vformat get_field get_value convert_field __setattr__ __delattr__ __class__ __get__
""")
)

METHODS = frozenset(
    split_words("""
    __init__ __new__ __repr__ __str__ __bytes__ __format__ __lt__ __le__ __eq__ __ne__ __gt__ __ge__ __hash__
    __bool__ __len__ __length_hint__ __iter__ __next__ __reversed__ __contains__ __getitem__ __setitem__
    __delitem__ __missing__ __call__ __enter__ __exit__ __aenter__ __aexit__ __aiter__ __anext__ __await__
    __post_init__ __init_subclass__ __set_name__ __get__ __class_getitem__ __getattr__ __del__ __add__ __radd__
    __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __matmul__ __rmatmul__ __imatmul__ __truediv__
    __rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __divmod__
    __rdivmod__ __pow__ __rpow__ __ipow__ __lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__
    __and__ __rand__ __iand__ __xor__ __rxor__ __ixor__ __or__ __ror__ __ior__ __neg__ __pos__ __abs__
    __invert__ __setattr__ __delattr__ __copy__ __fspath__ __complex__ __int__ __float__
    __index__ __round__ __trunc__ __floor__ __ceil__
""")
)
READABLE = frozenset(
    split_words("""
    __name__ __qualname__ __doc__ __class__ __version__ __members__ __cause__ __context__ __notes__ __wrapped__
""")
)
CLASS_VARIABLES = frozenset(
    split_words("""
    __slots__ __match_args__ __hash__ __doc__ __set__ __delete__
""")
)
MODULE_VARIABLES = frozenset(
    split_words("""
    __all__ __version__ __author__ __doc__ __license__ __date__
""")
)
MODULE_NAMES = frozenset(
    split_words("""
    __name__ __doc__ __debug__
""")
)

# Hooks of stock RestrictedPython. Source cannot use our hooks at all; these are refused only to give a clear message.
STOCK_HOOKS = frozenset(
    split_words("""
    _getattr_ _getitem_ _getiter_ _write_ _print_ _inplacevar_ _unpack_sequence_ _iter_unpack_sequence_ _apply_
    __metaclass__ __import__ __builtins__ __build_class__ __loader__ __spec__
""")
)

FRAME_ATTRIBUTES = frozenset(
    split_words("""
    tb_frame tb_next tb_lasti tb_lineno f_back f_builtins f_code f_generator f_globals f_lasti f_lineno f_locals
    f_trace f_trace_lines f_trace_opcodes co_code co_consts co_names co_varnames co_freevars co_cellvars
    co_filename co_positions co_lines gi_frame gi_code gi_yieldfrom cr_await cr_frame cr_code cr_origin ag_await
    ag_frame ag_code func_globals func_code
""")
)
_NAMEDTUPLE = frozenset(
    split_words("""
    _asdict _replace _make _fields _field_defaults
""")
)


# The dataclasses module would add inspect and 1.5 MB to every zygote.
class NameRefusal(NamedTuple):
    """The reason why a name may not be used, and an alternative."""

    code: str
    message: str
    hint: str


def attribute_refusal(name: str, *, storing: bool = False) -> NameRefusal | None:
    """Whether `.name` may be read (or set). Names with a single underscore are allowed."""
    if name in FRAME_ATTRIBUTES:
        return NameRefusal("frame-attribute", f"{name} gives access to the interpreter's frames",
                           "Functions cannot inspect frames, code objects or tracebacks.")  # fmt: skip
    if name in STOCK_HOOKS or name.endswith("__roles__"):
        return NameRefusal("reserved-name", f"{name} is reserved", "Choose another name.")
    if not (name.startswith("__") and name.endswith("__")):
        return None
    if name in METHODS and not (storing and name in ("__init_subclass__", "__getattr__")):
        return None
    if name in READABLE and (not storing or name in ("__doc__", "__name__", "__qualname__")):
        return None
    return NameRefusal("dunder-attribute", f"{name} is not available in a function", _suggest_replacement(name))


def pattern_refusal(name: str) -> NameRefusal | None:
    """Whether a class pattern may capture `.name`: patterns read the attribute without the guards
    of an access.
    """
    if name in RISKY_ATTRIBUTES:
        return NameRefusal("pattern-attribute", f"{name} cannot be captured by a pattern",
                           "Match the object, and read the attribute afterwards.")  # fmt: skip
    return attribute_refusal(name)


def variable_refusal(name: str, *, in_class: bool = False) -> NameRefusal | None:
    """Whether `name` may be used as a variable, a parameter, a function or a class."""
    if name in STOCK_HOOKS or name.endswith("__roles__"):
        return NameRefusal("reserved-name", f"{name} is reserved", "Choose another name.")
    if name in FRAME_ATTRIBUTES:
        return NameRefusal(
            "frame-attribute", f"{name} is a name used by the interpreter's frames", "Choose another name."
        )
    if not (name.startswith("__") and name.endswith("__")) or name == "__":
        return None
    dunders = METHODS | CLASS_VARIABLES if in_class else MODULE_VARIABLES | MODULE_NAMES
    if name in dunders:
        return None
    return NameRefusal("dunder-name", f"{name} cannot be defined or used here",
                       "Use a name without two leading and trailing underscores.")  # fmt: skip


def _suggest_replacement(name: str) -> str:
    return {
        "__dict__": "Use vars(x), dataclasses.asdict(x), or name the attributes.",
        "__bases__": "Use isinstance() or issubclass().",
        "__mro__": "Use isinstance() or issubclass().",
        "__subclasses__": "List the classes explicitly.",
        "__import__": "Write an import statement.",
        "__globals__": "Pass what you need as an argument.",
        "__getattribute__": "Use getattr(x, name) or define __getattr__.",
    }.get(name, "Use the operator or builtin function that calls it.")
