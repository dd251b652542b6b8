"""Build the documentation as a site: `make docs` writes build/site from the Markdown files of the repository.

The files are copied with their folders, so that a link works both on the site and in the repository. The build fails
on a broken link and on a page that would load something from another host.
"""

import logging
import re
import shutil
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build" / "docs-source"
SITE = ROOT / "build" / "site"
PAGES = ["*.md", "LICENSE", "docs/**/*.md", "docs/images/*", "devices/client/README.md"]
LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]+src(?:set)?=["']?https?:|<link[^>]+href=["']?https?:""")


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    copy_pages()
    try:
        build(load_config(str(ROOT / "mkdocs.yml")))
    except Abort:
        sys.exit("The documentation has broken links; see the warnings above.")
    if pages := loading_from_outside():
        sys.exit(f"These pages load something from another host: {', '.join(pages)}")
    print(f"The documentation is in {SITE / 'index.html'}")  # noqa: T201


def copy_pages() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for pattern in PAGES:
        for page in ROOT.glob(pattern):
            target = SOURCE / page.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, target)


def loading_from_outside() -> list[str]:
    return [str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if LOADED.search(page.read_text())]


if __name__ == "__main__":
    main()
