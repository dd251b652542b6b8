"""Options of `manage.py serve`, copied to the environment before Django reads its settings."""

import argparse
import os

VARIABLES = {"host": "MUSTER_HOST", "port": "MUSTER_PORT", "data_dir": "MUSTER_DATA_DIR"}


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="Address to listen on; default MUSTER_HOST or 127.0.0.1.")
    parser.add_argument("--port", type=int, help="Port to listen on; default MUSTER_PORT or 8000.")
    parser.add_argument("--data-dir", help="Data directory; default MUSTER_DATA_DIR or var/.")
    parser.add_argument(
        "--only",
        choices=["web", "worker"],
        help="Only this program, beside others on this or other machines; all servers are external.",
    )
    parser.add_argument("--no-greeting", action="store_true", help="Do not process a first message.")


def into_environment(argv: list[str]) -> None:
    """For `manage.py serve …`: options take precedence over variables. Other commands are not
    affected.
    """
    if argv[1:2] != ["serve"]:
        return
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_serve_options(parser)
    try:
        values, _ = parser.parse_known_args(argv[2:])
    except argparse.ArgumentError:
        return  # the command parses them again and reports errors
    for option, variable in VARIABLES.items():
        if (value := getattr(values, option)) is not None:
            os.environ[variable] = str(value)
