"""The program `muster`, also as `python -m muster_client`."""

import sys


def main() -> int:
    """Returns the exit code; see docs/howto/command-line.md."""
    try:
        from .cli.program import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write("muster: the command line needs more packages: pip install 'muster-client[cli]'\n")
        return 1
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
