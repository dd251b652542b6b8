"""The admin of agents, tools, people and keys, and the two base classes of every app's admin."""

from .owned import OwnedAdmin, ReadOnlyAdmin, VisibleChoices
from .versioned import VersionedAdmin, VersionedForm

__all__ = ["OwnedAdmin", "ReadOnlyAdmin", "VersionedAdmin", "VersionedForm", "VisibleChoices"]

from . import access, authored, chain, hook  # noqa: E402,F401  (registers the models; needs the bases above)
