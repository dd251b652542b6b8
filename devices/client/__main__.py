"""python -m devices.client pair | run | status | review"""

import argparse
import asyncio
import logging
import platform
import signal
import sqlite3
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

if sys.platform == "win32":
    # The modules below need what Windows does not have.
    sys.exit("muster-device: this program runs on Linux and macOS. On Windows, run it in WSL (wsl --install).")

from . import VERSION, pairing, review
from .exceptions import Fatal
from .home import MODES, Config, Home, expand_home
from .journal import Journal
from .store import Store


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        return int(options.act(Home(options.home), options) or 0)
    except Fatal as error:
        return fail(str(error))
    except (OSError, sqlite3.Error) as error:  # the disk is full, or a file is damaged or somebody else's
        return fail(f"{options.home or 'the data directory'} cannot be used: {error}")
    except KeyboardInterrupt:
        return 130


def fail(reason: str) -> int:
    print(f"muster-device: {reason}", file=sys.stderr)
    return 1


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        prog="muster-device", description="Let your agents use tools on this machine."
    )
    command_line.add_argument("--home", help="data directory; default $MUSTER_DEVICE_HOME or ~/.muster-device")
    command_line.add_argument("--version", action="version", version=VERSION)
    commands = command_line.add_subparsers(required=True, metavar="pair | run | status | review")
    one = commands.add_parser("pair", help="pair this machine with your account, using a code from the server")
    one.add_argument("--server", required=True, help="for example https://muster.example.org")
    one.add_argument("--code", required=True)
    one.add_argument("--name", default=platform.node()[:100] or "device", help="name of this machine on the server")
    one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    one.set_defaults(act=pair_command)
    one = commands.add_parser("run", help="connect and serve tool calls until stopped")
    one.add_argument("--root", action="append", default=[], metavar="[NAME=]DIR", help="share a folder for reading")
    one.add_argument(
        "--approve", action="append", default=[], metavar="TOOL=allow|ask|deny", help="“default” means any"
    )
    one.set_defaults(act=run_command)
    one = commands.add_parser("status", help="show the identity of this device, and its calls by run")
    one.set_defaults(act=status)
    one = commands.add_parser("review", help="show suggestions of agents; correct, approve or reject them")
    one.add_argument("decision", nargs="?", choices=["approve", "reject", "edit"])
    one.add_argument("ids", nargs="*", metavar="ID", help="or “all”; for edit an id and NAME=VALUE …")
    one.add_argument("--search", default="", metavar="WORDS", help="show only suggestions that contain these words")
    one.add_argument("--reason", default="", help="why you reject; kept with the record")
    one.set_defaults(act=review_suggestions)
    return command_line


def pair_command(home: Home, options: argparse.Namespace) -> int:
    if not options.yes:
        preview = pairing.preview_pairing(options.server, options.code)
        account = preview["account"]
        server = pairing.check_server_address(options.server)
        answer = input(f"Pair “{options.name}” with the account {account} at {server}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was paired.")
            return 1
    identity = pairing.pair_device(home, options.server, options.code, options.name)
    print(f"Paired with {identity.account} at {identity.server} as device {identity.device}.")
    print(f"Share folders in {home.path / 'config.toml'} or with --root, then: muster-device run")
    return 0


def run_command(home: Home, options: argparse.Namespace) -> int:
    # Its libraries are not needed to pair or to review.
    from .connection import Client

    config = with_options(home.config(), options)
    for name, root in config.roots.items():
        if not Path(root).is_dir():
            raise Fatal(f"the shared folder {name} does not exist: {root}")

    async def serve() -> None:
        client = Client(home, config)
        loop = asyncio.get_running_loop()
        for word in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(word, client.stop)
        await client.run()

    asyncio.run(serve())
    return 0


def with_options(config: Config, options: argparse.Namespace) -> Config:
    roots = dict(config.roots)
    for text in options.root:
        name, _, path = text.rpartition("=")
        if not name:
            name = Path(path).resolve().name
        roots[name] = str(expand_home(path).resolve())
    modes = {}
    for text in options.approve:
        name, _, mode = text.partition("=")
        modes[name] = mode
    for mode in modes.values():
        if mode not in MODES:
            raise Fatal(f"an approval must be allow, ask or deny, not {mode!r}")
    default = modes.pop("default", config.default_approval)
    offered = modes.pop("offered", config.offered_approval)
    approvals = {**config.approvals, **modes}
    return replace(config, roots=roots, default_approval=default, offered_approval=offered, approvals=approvals)


def status(home: Home, options: argparse.Namespace) -> int:
    identity = home.identity()
    print(f"{identity.name}: device {identity.device} of {identity.account} at {identity.server}")
    if home.is_running():
        print("The client is running.")
    else:
        print("The client is not running.")
    store = Store(home.database)
    for name, root in home.config().roots.items():
        print(f"shares {name}: {root}")
    print(f"{len(store.suggestions())} suggestions are waiting for you (review)")
    for run in Journal(store).recent_runs():
        when = datetime.fromtimestamp(run["last"]).isoformat(" ", "seconds")
        agent = run["agent"] or "?"
        state = run["status"] or "at work"
        print(f"{when}  {agent:20} {run['calls']:4} calls  {state:10} run {run['run']}")
    return 0


def review_suggestions(home: Home, options: argparse.Namespace) -> int:
    store = Store(home.database)
    if options.decision is None:
        lines = review.list_suggestion_lines(store, options.search)
        print("\n".join(lines).rstrip() or "No suggestions.")
        return 0
    if not options.ids:
        raise Fatal("give ids from the list, or “all”")
    if options.decision == "edit":
        id, *assignments = options.ids
        record = review.edit_suggestion(store, id, assignments)
        print("\n".join(review.render_suggestion(record)))
        return 0
    is_yes = options.decision == "approve"
    count, missing = review.decide_suggestions(store, options.ids, approve=is_yes, reason=options.reason)
    if is_yes:
        print(f"{count} approved")
    else:
        print(f"{count} rejected")
    for id in missing:
        print(f"there is no open suggestion {id}", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
