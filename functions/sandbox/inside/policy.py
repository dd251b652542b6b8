"""The language layer: a RestrictedPython policy that refuses at compile time and leaves accepted
code native.

It deviates from RestrictedPython's advice, which is meant for code inside a trusted process: item
access, iteration and assignment are not guarded at run time, because no state is shared and the
process ends with the child.
"""

from __future__ import annotations

import ast
from typing import Any

from RestrictedPython.transformer import RestrictingNodeTransformer, copy_locations

from . import modules, requirements
from .names import (
    ABSTRACT_HOOK,
    HOOK,
    MODULE_NAMES,
    PATTERN_HOOK,
    RISKY_ATTRIBUTES,
    NameRefusal,
    attribute_refusal,
    pattern_refusal,
    variable_refusal,
)
from .refusals import Refusals

Libraries = dict[str, list[str]]
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def apply_policy(
    tree: ast.Module, allowed_imports: frozenset[str], libraries: Libraries, required: list[str], refusals: Refusals
) -> ast.Module:
    """The tree with guards around risky attribute reads; refusals are added to the list."""
    policy = Policy(allowed_imports, refusals)
    policy.libraries = libraries
    policy.packages = frozenset(package for name in required for package in libraries.get(name, ()))
    module: ast.Module = policy.visit(tree)
    return ast.fix_missing_locations(module)


class Policy(RestrictingNodeTransformer):
    """RestrictedPython's default-deny visitor with different rules."""

    def __init__(self, allowed_imports: frozenset[str], refusals: Refusals) -> None:
        super().__init__()
        self._allowed = allowed_imports
        self._refusals = refusals
        self._in_class = False
        # Classes in patterns.
        self._kept = 0
        self.libraries: Libraries = {}
        # Modules that may be imported from the required libraries.
        self.packages: frozenset[str] = frozenset()

    # Reporting

    def error(self, node: ast.AST, info: str) -> None:
        self._refusals.add(node, "not-allowed", info, "Write it another way; see the language policy.")

    def warn(self, node: ast.AST, info: str) -> None:
        return

    def not_allowed(self, node: ast.AST) -> None:
        word = type(node).__name__
        self._refusals.add(node, "not-allowed", f"{word} is not allowed in a function",
                           {"TryStar": "Use a plain `except`."}.get(word, "Write it another way."))  # fmt: skip

    def _refuse(self, node: ast.AST, refusal: NameRefusal | None) -> None:
        if refusal is not None:
            self._refusals.add(node, refusal.code, refusal.message, refusal.hint)

    # Names. Every construct that binds a name goes through check_name.

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:
        if name == "__match_args__":
            self._refusals.add(node, "match-args", "__match_args__ must be a literal tuple of names",
                               'Write __match_args__ = ("x", "y").')  # fmt: skip
        elif name is not None:
            self._refuse(node, variable_refusal(name, in_class=self._in_class))

    def visit_Name(self, node: ast.Name) -> Any:
        if not (isinstance(node.ctx, ast.Load) and node.id in MODULE_NAMES):
            self.check_name(node, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> Any:
        self._outside_class(lambda: self.check_name(node, node.arg))
        return self.node_contents_visit(node)

    def check_function_argument_names(self, node: Any) -> None:
        # visit_arg handles every kind of parameter.
        return

    def _outside_class(self, step: Any) -> Any:
        was, self._in_class = self._in_class, False
        try:
            return step()
        finally:
            self._in_class = was

    def visit_keyword(self, node: ast.keyword) -> Any:
        return self.node_contents_visit(node)

    def visit_Global(self, node: ast.Global) -> Any:
        for name in node.names:
            self.check_name(node, name)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        for name in node.names:
            self.check_name(node, name)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)

    # Attributes: the name is a literal, so it is checked here and the access stays native

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        storing = not isinstance(node.ctx, ast.Load)
        self._refuse(node, attribute_refusal(node.attr, storing=storing))
        node = self.node_contents_visit(node)
        if storing or node.attr not in RISKY_ATTRIBUTES:
            return node
        guarded = ast.Call(ast.Name(HOOK, ast.Load()), [node.value, ast.Constant(node.attr)], [])
        copy_locations(guarded, node)
        return guarded

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.node_contents_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        return self.node_contents_visit(node)

    # Statements that stock RestrictedPython rewrites or refuses

    def visit_Assign(self, node: ast.Assign) -> Any:
        if self._in_class and len(node.targets) == 1 and self._is_literal_match_args(node.targets[0], node.value):
            return node
        return self.node_contents_visit(node)

    def _is_literal_match_args(self, target: ast.expr, value: ast.expr) -> bool:
        """The only way to bind __match_args__: it tells the author immediately which names a
        pattern may not read.
        """
        if not (isinstance(target, ast.Name) and target.id == "__match_args__" and isinstance(value, ast.Tuple)):
            return False
        names = [one.value for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        for name in names:
            self._refuse(target, pattern_refusal(name))
        return len(names) == len(value.elts)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self.node_contents_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self.node_contents_visit(node)

    def guard_iter(self, node: Any) -> Any:
        return self.node_contents_visit(node)

    def visit_With(self, node: ast.With) -> Any:
        return self.node_contents_visit(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> Any:
        return self.node_contents_visit(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> Any:
        return self.node_contents_visit(node)

    def visit_Await(self, node: ast.Await) -> Any:
        return self.node_contents_visit(node)

    def visit_Module(self, node: ast.Module) -> Any:
        return self.node_contents_visit(node)

    # Definitions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self._definition(node)

    def _definition(self, node: _FunctionNode) -> Any:
        self.check_name(node, node.name)
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args = self.visit(node.args)
        node.returns = self.visit(node.returns) if node.returns else None
        node.body = self._outside_class(lambda: self._visit_all(node.body))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self._outside_class(lambda: self.node_contents_visit(node))

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.check_name(node, node.name)
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.bases = [self.visit(base) for base in node.bases]
        node.keywords = [self._class_keyword(keyword) for keyword in node.keywords]
        was, self._in_class = self._in_class, True
        node.body = self._visit_all(node.body)
        self._in_class = was
        return node

    def _class_keyword(self, keyword: ast.keyword) -> ast.keyword:
        """Allows `total=False` and the arguments of __init_subclass__. The only allowed metaclass
        is abc.ABCMeta, inserted here.
        """
        if keyword.arg == "metaclass" and _last_name(keyword.value) == "ABCMeta":
            hook = ast.Name(ABSTRACT_HOOK, ast.Load())
            copy_locations(hook, keyword.value)
            return ast.copy_location(ast.keyword("metaclass", hook), keyword)
        if keyword.arg in (None, "metaclass"):
            message = f"the class keyword {keyword.arg or '**'} is not allowed"
            self._refusals.add(keyword.value, "class-keyword", message, "Use plain base classes, or a decorator.")
        checked: ast.keyword = self.visit(keyword)
        return checked

    def _visit_all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in body]

    # Pattern matching

    def visit_Match(self, node: ast.Match) -> Any:
        self.node_contents_visit(node)
        node.cases = [case for original in node.cases for case in (*self._guard_of(original), original)]
        return node

    def _guard_of(self, case: ast.match_case) -> list[ast.match_case]:
        """Adds a case that never matches before one with `case Point(x, y)`: it checks the classes
        used in the pattern.

        Such a pattern reads the attributes that __match_args__ names, which are known only at run
        time. Each class is kept under a name that is not valid in source, so that the match uses
        the same class that was checked.
        """
        conditions: list[ast.expr] = []
        for pattern in ast.walk(case.pattern):
            if isinstance(pattern, ast.MatchClass) and pattern.patterns:
                self._kept += 1
                name = f"<class {self._kept}>"
                conditions.append(ast.NamedExpr(ast.Name(name, ast.Store()), pattern.cls))
                pattern.cls = ast.Name(name, ast.Load())
                copy_locations(pattern.cls, pattern)
        if not conditions:
            return []
        guard = ast.Call(ast.Name(PATTERN_HOOK, ast.Load()), conditions, [])
        copy_locations(guard, case.pattern)
        return [ast.match_case(ast.copy_location(ast.MatchAs(), case.pattern), guard, [ast.Pass()])]

    def visit_match_case(self, node: ast.match_case) -> Any:
        return self.node_contents_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> Any:
        return self.node_contents_visit(node)

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> Any:
        return node

    def visit_MatchSequence(self, node: ast.MatchSequence) -> Any:
        return self.node_contents_visit(node)

    def visit_MatchOr(self, node: ast.MatchOr) -> Any:
        return self.node_contents_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> Any:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> Any:
        self.check_name(node, node.name)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> Any:
        self.check_name(node, node.rest)
        return self.node_contents_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        for name in node.kwd_attrs:
            self._refuse(node, pattern_refusal(name))
        return self.node_contents_visit(node)

    # Imports

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            self._check_import(alias, alias.name)
            self.check_name(alias, alias.asname or alias.name.partition(".")[0])
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module = node.module or ""
        if node.level:
            self._refusals.add(node, "import", "relative imports are not available",
                               "Import a module by its full name.")  # fmt: skip
            return node
        within = [f"{module}.{alias.name}" for alias in node.names]
        if all(name in modules.EXPORTS for name in within):
            # `from urllib import parse`.
            for alias, name in zip(node.names, within, strict=True):
                self._check_import(alias, name)
                self.check_name(alias, alias.asname or alias.name)
        elif self._check_import(node, module):
            for alias in node.names:
                self.check_name(alias, alias.asname or alias.name)
                self._check_export(alias, module, alias.name)
        return node

    def _check_import(self, node: ast.AST, name: str) -> bool:
        if name.partition(".")[0] in self.packages:
            return True
        if name not in modules.EXPORTS:
            message = f"{name} cannot be imported in a function"
            hint = requirements.find_library_hint(name, self.libraries) or modules.find_import_hint(name)
            self._refusals.add(node, "import-unknown", message, hint)
            return False
        if not modules.allows(self._allowed, name):
            self._refusals.add(node, "import-not-allowed", f"{name} is not in this function's allowed imports",
                               f"Add {name} to its allowed imports.")  # fmt: skip
            return False
        return True

    def _check_export(self, node: ast.AST, module: str, name: str) -> None:
        if name == "*":
            self._refusals.add(node, "import-star", "star imports are not allowed", "Import the names explicitly.")
        elif (
            module.partition(".")[0] not in self.packages
            and name not in modules.EXPORTS[module]
            and f"{module}.{name}" not in modules.EXPORTS
        ):
            message = f"{module}.{name} is not available in a function"
            self._refusals.add(node, "import-name", message, modules.hint_for_name(module, name))


def _last_name(node: ast.expr) -> str:
    """`abc.ABCMeta` → ABCMeta."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "")
