#!/usr/bin/env python
"""Muster's command line."""

import os
import sys

from supervisor.options import into_environment


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    into_environment(sys.argv)
    try:
        from django.core.exceptions import ImproperlyConfigured

        from supervisor.command_line import CommandLine
    except ImportError:
        sys.exit("Django is not installed here. Run `make run`, or activate .venv first.")
    try:
        CommandLine(sys.argv).execute()
    except ImproperlyConfigured as error:
        sys.exit(f"muster: {error}")


if __name__ == "__main__":
    main()
