"""manage.py install_libraries: install the libraries that functions may require, separately from
the application.
"""

import json
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from functions.sandbox.libraries import MANIFEST, normalize_package_name


class Command(BaseCommand):
    help = "Install the libraries that functions may require into a separate read-only directory."

    def add_arguments(self, parser: ArgumentParser) -> None:
        default = settings.BASE_DIR / "requirements-libraries.txt"
        parser.add_argument(
            "--requirements", type=Path, default=default, help="Requirements file with pinned versions and hashes."
        )
        parser.add_argument(
            "--documents", action="store_true",
            help="Install only what reads documents, and only where no libraries are installed yet.",
        )  # fmt: skip

    def handle(self, *args: Any, requirements: Path, documents: bool, **options: Any) -> None:
        target = Path(settings.LIBRARIES_DIR)
        if documents and (target / MANIFEST).exists():
            return
        if documents:
            requirements = settings.BASE_DIR / "requirements-documents.txt"
        # Whoever imports a library meanwhile finds the old folder whole.
        fresh = target.with_name(f"{target.name}.new")
        remove_directory(fresh)
        install(requirements, fresh)
        manifest = modules_by_distribution(fresh)
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1))
        make_read_only(fresh)
        remove_directory(target)
        fresh.rename(target)
        self.stdout.write(f"Installed in {target}: {', '.join(sorted(manifest))}.")
        allowed_names = set(map(normalize_package_name, settings.LIBRARIES))
        missing = sorted(allowed_names - manifest.keys())
        if missing and not documents:
            raise CommandError(f"In MUSTER_LIBRARIES, but not in {requirements.name}: {', '.join(missing)}.")
        allowed = ", ".join(settings.LIBRARIES) or "none; set MUSTER_LIBRARIES"
        self.stdout.write(f"Functions may require: {allowed}.")
        interpreter_names = set(map(normalize_package_name, settings.INTERPRETER_LIBRARIES))
        loaded = ", ".join(sorted(interpreter_names & manifest.keys())) or "none"
        restart = ""
        if not documents:
            restart = " Restart the servers and workers."
        self.stdout.write(f"The tool run_python loads: {loaded}.{restart}")


def install(requirements: Path, target: Path) -> None:
    """Install with pip from wheels with known hashes only, so that no package code runs during
    installation.
    """
    if find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    else:  # an environment that uv made has no pip
        command = [shutil.which("uv") or "uv", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--target", str(target), "-r", str(requirements)]
    if subprocess.run(command).returncode:  # noqa: S603 - our own arguments
        raise CommandError("pip could not install the libraries. See its output above.")


def modules_by_distribution(directory: Path) -> dict[str, list[str]]:
    """The importable packages and modules of each distribution."""
    modules: dict[str, list[str]] = {}
    for distribution in distributions(path=[str(directory)]):
        names = set()
        for file in distribution.files or []:
            top, _, _ = Path(str(file)).parts[0].partition(".")
            if top.isidentifier() and not top.startswith("_"):
                names.add(top)
        importable = [name for name in names if is_module(directory, name)]
        package = normalize_package_name(distribution.metadata["Name"])
        modules[package] = sorted(importable)
    return modules


def is_module(directory: Path, name: str) -> bool:
    if (directory / name).is_dir():
        return True
    # In Python, or compiled for one platform.
    return any(directory.glob(f"{name}.*py")) or any(directory.glob(f"{name}.*so"))


def make_read_only(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if path.is_symlink():
            continue
        if path.is_dir():
            path.chmod(0o555)
        else:
            path.chmod(0o444)


def remove_directory(directory: Path) -> None:
    if not directory.exists():
        return
    # A read-only folder keeps its files from being deleted.
    for path in (directory, *directory.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(directory)
