"""What people read and see instead of a technical name: a display name in any language, and an icon.

Both take effect at once. No model sees them, so they are not part of a version.
"""

import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as later

from agents.names import make_technical_name

from .options import option
from .team import RESERVED, kind_name

# Control characters, unassigned ones, and those that end a line.
REFUSED = {"Cc", "Cn", "Co", "Cs", "Zl", "Zp"}
# Emoji, the colours of their skin and hair, and what joins them to one picture.
PICTURES = {"So", "Sk", "Mn", "Me", "Cf"}
# They turn the direction of what follows, so that a text looks like another one.
DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# The two columns.
DISPLAYED = ["display_name", "icon"]
NAME_LENGTH = 100
# A family or the flag of a region is one picture of several characters.
ICON_LENGTH = 16


def check_display_name(value: str) -> None:
    """Any letters of any language in one line."""
    for letter in value:
        if letter in DIRECTIONS or unicodedata.category(letter) in REFUSED:
            raise ValidationError("Write the name in one line, without control characters.", code="control_character")


def check_icon(value: str) -> None:
    """An emoji, or at most two other characters."""
    check_display_name(value)
    is_picture = all(unicodedata.category(letter) in PICTURES for letter in value)
    if " " in value or (len(value) > 2 and not is_picture):
        raise ValidationError("Choose an emoji, or one or two letters.", code="no_icon")


def display_name_option(tab: str = "") -> Any:
    """The column `display_name` of what people choose by its name."""
    return option(
        models.CharField(
            max_length=NAME_LENGTH, blank=True, validators=[check_display_name],
            help_text="What people read instead of the name, in any language; empty: the name.",
        ), "", tab, later("Display name"),
        later("What people read, in any language. Empty: the technical name. Takes effect at once."),
    )  # fmt: skip


def icon_option(tab: str = "") -> Any:
    """The column `icon`."""
    return option(
        models.CharField(
            max_length=ICON_LENGTH, blank=True, validators=[check_icon],
            help_text="An emoji, or one or two letters; empty: the first letter of its name.",
        ), "", tab, later("Icon"),
        later("An emoji, or one or two letters. Empty: the first letter of its name. Takes effect at once."),
    )  # fmt: skip


class Displayed:
    """A row with these two columns, as people see it."""

    name: Any
    display_name: Any
    icon: Any

    @property
    def label(self) -> str:
        return self.display_name or self.name

    @property
    def symbol(self) -> str:
        """Its icon, or the first letter of its name."""
        return self.icon or self.label[:1].upper()


def find_free_name(model: Any, owner: Any, display_name: str, *, separator: str = "-") -> str:
    """A technical name that the owner's rows do not have yet, made from what people read.

    A name in letters that nobody transliterates becomes that of its kind, such as agent-2.
    """
    # Room for a number behind it.
    transliterated = make_technical_name(display_name[:NAME_LENGTH], separator=separator, length=56)
    base = transliterated or make_technical_name(kind_name(model), separator=separator)
    used_names = set(model.objects.filter(owner=owner, name__startswith=base).values_list("name", flat=True)) | RESERVED
    name = base
    number = 1
    while name in used_names:
        number += 1
        name = f"{base}{separator}{number}"
    return name
