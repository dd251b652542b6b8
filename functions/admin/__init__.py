"""The admin pages for functions: edit with errors shown at their lines, try, test, compare
versions, roll back.
"""

from . import function, history  # noqa: F401  (registers the models)
