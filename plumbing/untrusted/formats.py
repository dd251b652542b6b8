"""YAML from users as values, and letters that no text needs."""

import re
from typing import Any

import yaml

UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u200b\u2060\ufeff]")


def clean_untrusted_text(text: str) -> str:
    """Line ends as \\n, without control and invisible characters, which can hide instructions and which databases
    refuse.
    """
    return UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases, which could expand a few lines to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)


def yaml_value_here(text: str) -> Any:
    """The value of a YAML text, dates as they are written. Raises ValueError."""
    try:
        return yaml.load(text, Loader=PlainLoader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)[:200]) from None


# Dates stay text: JSON has none, and an example in a schema must not change its type.
PlainLoader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
