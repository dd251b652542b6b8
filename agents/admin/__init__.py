"""The admin of the vocabulary, and the two base classes every app's admin stands on."""

from .owned import OwnedAdmin, VisibleChoices
from .versioned import VersionedAdmin, VersionedForm

__all__ = ["OwnedAdmin", "VersionedAdmin", "VersionedForm", "VisibleChoices"]

from . import access, authored, chain  # noqa: E402,F401  (registers the models; needs the bases above)
