"""The documentation as a site: `make docs` builds it from the Markdown that a repository browser shows.

The source directory is the repository, so that links between pages, pictures and files are the same in both.
docs/index.md is the start page and the navigation: each of its sections becomes a group of the sidebar.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

from hopscope import __version__

gc.set_threshold(100_000, 50, 100)  # at 700, looking for cycles is a fifth of a build: 12.6 s, not 9.9

project = "Hopscope"
release = version = __version__
author = "the Hopscope authors"
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**.md",
]
exclude_patterns = [".*", "bench", "build", "dist", "deploy", "src", "tests"]
"""Folders that are not searched for pages: 0.8 of the 11.5 s of a build, with an environment among them."""

extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # a transcript is shown as it is

html_theme = "furo"
html_title = "Hopscope"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
pygments_style = "default"
pygments_dark_style = "github-dark"


def navigation(index: str) -> str:
    """Hidden tables of contents, one for each section of the start page that lists pages."""
    groups = []
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        title, body = section.split("\n", 1)
        links = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\.md\)", body, re.M)
        if links:
            pages = "\n".join(f"{name} </{(Path('docs') / path).as_posix()}>" for name, path in links)
            groups.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n")
    return "\n".join(groups).replace("/docs/../", "/")


def setup(app: Any) -> None:
    """Add the navigation to the start page, and lead visitors of the folder to it."""

    def read(app: Any, name: str, source: list[str]) -> None:
        if name == root_doc:
            source[0] += "\n" + navigation(source[0])

    def finish(app: Any, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
            (Path(app.outdir) / "index.html").write_text(f"<!doctype html>{refresh}\n")

    app.connect("source-read", read)
    app.connect("build-finished", finish)
