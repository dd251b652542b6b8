"""A text that a person writes again and again, with places for what differs."""

import re

from django.db import models

from .team import Owned, OwnedQuerySet, check_name, one_name_per_owner

PLACE = re.compile(r"\{\{\s*([a-z][a-z0-9_]{0,39})\s*\}\}")
LENGTH = 20_000


class Prompt(Owned):
    """`text` may contain places such as {{city}}; the composer of the chat asks for their values."""

    name = models.CharField(max_length=64, validators=[check_name])
    description = models.CharField(max_length=200, blank=True)
    text = models.TextField(max_length=LENGTH)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("prompt")

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> list[str]:
        """The names of its places, in order."""
        return list(dict.fromkeys(PLACE.findall(self.text)))
