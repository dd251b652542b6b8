"""What the documents name is there: every path, name, command, setting, URL and make target in backticks."""

import re

import pytest

from connectors.accounts.catalog import CONNECTORS
from tests.docs import reference, signs

ROOT = signs.ROOT
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "reference"),
    ROOT / "devices" / "client" / "README.md",
    ROOT / "client" / "README.md",
    *sorted(path for app in signs.APPS for path in (ROOT / app).rglob("__init__.py")),
]
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # tells of what was, too
PROSE = [page for page in PAGES if page.parent.name != "adr"]  # a decision names what was refused, too
# Of other people's programs and of the kernel; Muster's code does not contain them.
FOREIGN = {
    "ChatOpenAI.invoke", "PROT_EXEC", "RESOLVE_BENEATH", "Upgrade", "returnImmediately", "packaging", "wss",
    "create_for_thread", "join_stream", "langsmith_tracing",
}  # fmt: skip
EXAMPLES = {"P1DT2H", "shop_get_item", "weather_forecast"}
CODE = (*(app for app in signs.APPS if app != "tests"), "templates", "client")
IN_CODE = re.compile(
    rf"(?<![\w/.:-])((?:{'|'.join(map(re.escape, signs.FOLDERS))})/[\w/-]+\.(?:py|md|yaml|html|js|css))\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_everything_that_a_page_names_exists(page):
    check_every_path_exists(page)
    check_every_dotted_name_exists(page)
    check_every_function_that_is_called_exists(page)
    check_every_command_exists(page)
    check_every_setting_exists(page)
    check_every_url_exists(page)
    if page in PROSE:
        check_every_word_in_backticks_is_a_word_of_the_code(page)


def check_every_path_exists(page):
    named = [span for span in signs.spans(page) if signs.is_path(span)]

    assert [path for path in named if not signs.path_exists(path, page)] == []


def test_every_path_in_the_code_exists():
    """Comments, docstrings and texts of the code name other files."""
    sources = [name for name in sorted(signs.files()) if name.split("/")[0] in CODE and name.endswith((".py", ".html"))]
    named = [(name, path) for name in sources for path in IN_CODE.findall((ROOT / name).read_text())]

    assert named
    assert [(name, path) for name, path in named if not signs.path_exists(path, ROOT / name)] == []


def check_every_dotted_name_exists(page):
    dotted = [span for span in signs.spans(page) if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", span)]
    ours = [name for name in dotted if not signs.is_path(name) and is_ours(name, page)]

    assert [name for name in ours if not (name in FOREIGN or signs.dotted_exists(name))] == []


def check_every_function_that_is_called_exists(page):
    called = [re.match(r"(?:await )?(\w+)\.(\w+)\(", span) for span in signs.spans(page)]

    assert [one.group() for one in called if one and not signs.call_exists(*one.groups())] == []


def check_every_word_in_backticks_is_a_word_of_the_code(page):
    known = signs.words("tests" in str(page) or page.name in ("CONTRIBUTING.md", "style.md", "benchmarks.md"))
    named = {span for span in signs.spans(page) if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*_?", span)}

    assert sorted(name for name in named - known - FOREIGN - EXAMPLES if not is_composed(name)) == []


def is_composed(name):
    """`gmail_draft`: the code joins a connector's name and an operation's. `gmail_` stands for all of them."""
    connector, _, method = name.partition("_")
    operations = {one.method for one in CONNECTORS[connector].operations()} if connector in CONNECTORS else set()
    return bool(operations) and (not method or method in operations)


def check_every_command_exists(page):
    unknown = []
    for line in signs.shell_lines(page):
        unknown += [target for target in re.findall(r"\bmake ([a-z][a-z-]+)", line) if is_target(line, target)]
        for command, rest in re.findall(r"\bmanage\.py ([a-z_]+)([^#`|]*)", line):
            try:
                known = signs.options(command)
            except KeyError:
                unknown.append(f"manage.py {command}")
                continue
            unknown += [option for option in re.findall(r"--[a-z-]+", rest) if option not in known]
        modules = re.findall(r"python -m ((?:benchmarks|tests|devices)[\w.]*)", line)
        unknown += [module for module in modules if not signs.module_runs(module)]

    assert unknown == []


def is_target(line, target):
    """Not “make up your mind”: only where the line begins so, or names the command alone."""
    return re.match(rf"(\$ |.*(=\S+|&&) )?make {target}", line) and target not in signs.make_targets()


def check_every_setting_exists(page):
    known = {name for name, *_ in reference.settings()} | signs.words(True)
    named = {
        name for span in signs.spans(page) for name in re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:_\*)?", span)
    }
    blocks = {name for line in signs.shell_lines(page) for name in re.findall(r"\bMUSTER_[A-Z0-9_]*[A-Z0-9]\b", line)}
    named |= {name for name in blocks if f"{name}_*" not in named}

    assert sorted(name for name in named if not is_setting(name, known)) == []


def is_setting(name, known):
    return any(one.startswith(name[:-1]) for one in known) if name.endswith("*") else name in known or name in FOREIGN


def check_every_url_exists(page):
    named = []
    for line in signs.shell_lines(page):
        named += re.findall(
            r"(?:^|[\s\"'`]|\d|\$URL)((?:/api/v1|/ws|/healthz|/readyz|/metrics|/api/)[^\s\"'`\\]*)", line
        )
    for span in signs.spans(page):
        named += re.findall(r"^(?:GET|POST|PUT|PATCH|DELETE) (\S+)", span)
        named += re.findall(r"^(…?/[\w{}<>/-]+|(?:…/)[\w{}<>/-]+)$", span)

    urls = [url.rstrip(".,;:)") for url in named]
    assert sorted({url for url in urls if not (url in KNOWN_PATHS or signs.url_exists(url))}) == []


KNOWN_PATHS = {
    "/embeddings",
    "/mnt",
    "/mnt/inputs",
    "/mnt/outputs",
    "/mnt/skills",
    "/v1",
    "/v1/",
    "/api/v1",
    "/langgraph/",
    "/oauth/",
}  # of other servers, and the root of ours


def test_a_name_of_what_is_not_there_is_noticed():
    page = ROOT / "README.md"

    assert not signs.path_exists("runs/intake.py", page)
    assert not signs.path_exists("runs/rules/politics.py", page)
    assert not signs.dotted_exists("runs.rules.politics")
    assert not signs.dotted_exists("Agent.dead_hash")
    assert not signs.call_exists("run", "finish")
    assert not signs.url_exists("/api/v1/agents/{name}/unpublish")
    assert not signs.url_exists("…/unpublish")
    assert "unpublish" not in signs.words()
    assert "unmake" not in signs.make_targets()


def is_ours(name, page):
    """A decision may name other people's code; of its names only those that begin with a package of ours count."""
    return page.parent.name != "adr" or name.split(".")[0] in signs.APPS
