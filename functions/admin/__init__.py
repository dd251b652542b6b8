"""The admin of functions: write with errors at their lines, try, test, compare, roll back."""

from . import function, history  # noqa: F401  (registers the models)
