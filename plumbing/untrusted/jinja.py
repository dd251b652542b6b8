"""Renders prompt templates with Jinja2. Runs in a child with limits of memory and time
(plumbing/untrusted/parse_in_child.py).

Templates are written by authors and values by callers. A value is only ever printed: it is never
parsed as a template. Templates see the values and Jinja's filters, nothing of the application.
"""

from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, debug, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from plumbing.untrusted.formats import clean_untrusted_text
from plumbing.untrusted.parse_in_child import Refused

# Characters of a rendered template.
MAX_TEXT = 200_000
# Jinja imports it with its first error, and in a child nothing can be imported any more.
ON_ERRORS = debug


def environment() -> ImmutableSandboxedEnvironment:
    jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, cache_size=0)
    jinja.globals.clear()
    return jinja


def render_here(template: str, values: dict[str, Any]) -> str:
    """The text. Raises Refused for a template that is not valid or needs a value that is missing."""
    parts, size = [], 0
    try:
        for part in environment().from_string(template).generate(values):
            parts.append(part)
            size += len(part)
            if size > MAX_TEXT:
                raise Refused(f"the text has more than {MAX_TEXT} characters", code="too_large")
    except TemplateSyntaxError as error:
        raise Refused(str(error.message), code="template_syntax", line=error.lineno)
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise Refused(str(error), code="template_failed")
    return clean_untrusted_text("".join(parts))


def names_here(template: str) -> list[str]:
    """The variables that the template reads. Raises Refused."""
    try:
        return sorted(meta.find_undeclared_variables(environment().parse(template)))
    except TemplateSyntaxError as error:
        raise Refused(str(error.message), code="template_syntax", line=error.lineno)
