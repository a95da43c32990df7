"""The site: `sphinx-build -W docs site`. Python blocks of its pages are run, and what they print is put under them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "delassus"
author = copyright = "The delassus developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "executed"]
exclude_patterns = ["_*"]
html_theme = "furo"
html_title = "delassus"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
default_role = "py:obj"
pygments_style = "friendly"
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def keep_colons(app, what, name, obj, options, lines):
    """Put an empty comment first: napoleon would take what stands before a colon for the type of a property."""
    if what in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]


def keep_names(app, what, name, obj, options, lines):
    """Write attributes that share a line without spaces: Sphinx would take the first for the type of the others."""
    for number, line in enumerate(lines):
        if line.startswith((":ivar ", ":vartype ")):
            field, names, text = line[1:].split(" ", 1)[0], *line.split(" ", 1)[1].split(":", 1)
            lines[number] = f":{field} {names.replace(', ', ',')}:{text}"


def setup(app):
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-docstring", keep_names, priority=600)
