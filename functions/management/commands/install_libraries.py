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
        fresh = target.with_name(f"{target.name}.new")
        remove_directory(fresh)
        install(requirements, fresh)
        manifest = modules_by_distribution(fresh)
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1))
        make_read_only(fresh)
        remove_directory(target)
        fresh.rename(target)
        self.stdout.write(f"Installed in {target}: {', '.join(sorted(manifest))}.")
        missing = sorted({normalize_package_name(name) for name in settings.LIBRARIES} - manifest.keys())
        if missing and not documents:
            raise CommandError(f"In MUSTER_LIBRARIES, but not in {requirements.name}: {', '.join(missing)}.")
        allowed = ", ".join(settings.LIBRARIES) or "none; set MUSTER_LIBRARIES"
        loaded = sorted({normalize_package_name(name) for name in settings.INTERPRETER_LIBRARIES} & manifest.keys())
        self.stdout.write(f"Functions may require: {allowed}.")
        restart = "" if documents else " Restart the servers and workers."
        self.stdout.write(f"The tool run_python loads: {', '.join(loaded) or 'none'}.{restart}")


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
        tops = {Path(str(file)).parts[0].partition(".")[0] for file in distribution.files or []}
        names = {top for top in tops if top.isidentifier() and not top.startswith("_") and is_module(directory, top)}
        modules[normalize_package_name(distribution.metadata["Name"])] = sorted(names)
    return modules


def is_module(directory: Path, name: str) -> bool:
    return (directory / name).is_dir() or any(directory.glob(f"{name}.*py")) or any(directory.glob(f"{name}.*so"))


def make_read_only(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)


def remove_directory(directory: Path) -> None:
    if directory.exists():
        for path in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        shutil.rmtree(directory)
