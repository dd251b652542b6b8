"""What every app must know of a database that went away."""

from django.db import InterfaceError, OperationalError

# The database is unavailable, is restarting or has no room on its disk: work goes on later, from its rows.
DATABASE_GONE = (OperationalError, InterfaceError)
