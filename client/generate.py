"""Writes what is generated in this package: `_sync` from `_async`, and `types.py` from OpenAPI.

`make reference` runs it, and a test compares. It is not part of the package. Both are committed: made at build time,
`pip install ./client` would need the server for the OpenAPI document, and ruff and a code generator; type checkers and
editable installations would not see what changed in `_async` until the next build.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent / "muster_client"
WORDS = {
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "AsyncClient": "Client",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclosing": "closing",
    "aclose": "close",
    "aread": "read",
    "aiter_sse": "iter_sse",
    "anyio": "time",
    "_async": "_sync",
}
HEAD = "# Generated from {source} by client/generate.py: change that file, then run `make reference`.\n"


def sync_sources() -> dict[Path, str]:
    """The files of `_sync` and their texts."""
    return {
        PACKAGE / "_sync" / file.name: synchronous(file.read_text(), f"_async/{file.name}")
        for file in sorted((PACKAGE / "_async").glob("*.py"))
    }


def synchronous(source: str, name: str) -> str:
    """The same code without `async`, with the names of synchronous things."""
    if name.endswith("__init__.py"):
        return HEAD.format(source=name) + '"""The synchronous client."""\n'
    text = re.sub(r"\basync (def|with|for)\b", r"\1", source)
    text = re.sub(r"\bawait ", "", text)
    for word, other in WORDS.items():
        text = re.sub(rf"\b{word}\b", other, text)
    text = re.sub(r"\bAsync([A-Z]\w*)", r"\1", text)
    return format_as_ruff(HEAD.format(source=name) + text, f"_sync/{Path(name).name}")


def types_source(schema: Mapping[str, Any]) -> str:
    """TypedDicts for every component of an OpenAPI document."""
    from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
    from datamodel_code_generator.enums import DataModelType
    from datamodel_code_generator.format import Formatter

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "types.py"
        generate(
            json.dumps({**schema, "paths": {}}),
            input_file_type=InputFileType.OpenAPI,
            output=output,
            output_model_type=DataModelType.TypingTypedDict,
            target_python_version=PythonVersion.PY_310,
            use_standard_collections=True,
            use_union_operator=True,
            collapse_root_models=True,
            enum_field_as_literal=LiteralType.All,
            disable_timestamp=True,
            formatters=[Formatter.BUILTIN],
        )
        text = output.read_text()
    body = with_own_names(text[text.index("from __future__") :], schema["components"]["schemas"])
    words = '"""What the API takes and returns, as dictionaries: generated from its OpenAPI document."""\n\n'
    return format_as_ruff(HEAD.format(source="the OpenAPI document") + words + body, "types.py")


def with_own_names(text: str, components: Mapping[str, Any]) -> str:
    """The generator calls a component `ToolModel` where a field of another one is called `tool`."""
    for name in components:
        other = f"{name}Model"
        if other not in components and not re.search(rf"^(class {name}\b|{name}\b.*=)", text, re.MULTILINE):
            text = re.sub(rf"\b{other}\b", name, text)
    return text


def format_as_ruff(text: str, name: str) -> str:
    """As `make format` leaves it."""
    at = ["--stdin-filename", str(PACKAGE / name), "-"]
    for words in (["check", "--fix-only"], ["format"]):
        command = [sys.executable, "-m", "ruff", *words, "--quiet", *at]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text


def write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(sync_sources())
    if len(sys.argv) > 1:
        write({PACKAGE / "types.py": types_source(json.loads(Path(sys.argv[1]).read_text()))})
