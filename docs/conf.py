"""The site: `sphinx-build -W docs site`. Python blocks of its pages are run, and what they print is put under them."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.inspect import TypeAliasForwardRef

sys.path.insert(0, str(Path(__file__).parent))

project = "delassus"
author = copyright = "The delassus developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "executed"]
exclude_patterns = ["_*"]
html_theme = "furo"
html_title = "delassus"
html_show_sourcelink = False
html_static_path = ["_static", str(Path(find_spec("ziamath").origin).parent / "fonts")]
html_css_files = ["wide.css"]
html_math_renderer = "mathml"
default_role = "py:obj"
pygments_style = "friendly"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
python_maximum_signature_line_length = 88
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name
    for name in (
        *("Array", "ArrayLike", "Compliance", "Constraints", "Controller", "Floats", "Frames", "Loss", "Payloads"),
        *("Policy", "Residuals", "Row", "Stabilisation", "Whole"),
    )
}
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

TypeAliasForwardRef.__repr__ = lambda self: self.name  # by which Sphinx writes aliases within other types
NUMPY_ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+?)_?\]\]")
MODULES = re.compile(r"~(\w+\.)+")


def shorten_types(app, what, name, obj, options, signature, returns):
    """Write arrays as `NDArray`, and the default of a field that each object has for itself as Python can read it."""
    signature, returns = (
        text and NUMPY_ARRAY.sub(r"NDArray[\1]", MODULES.sub("", text)) for text in (signature, returns)
    )
    return signature and signature.replace("<factory>", "..."), returns


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


def mathml(node, as_block):
    """MathML of an equation, which browsers show by themselves: pages need no script and no network."""
    bars = re.compile(r"\\(l|r)(vert|Vert)\b")
    text = bars.sub(lambda bar: ("\\left" if bar[1] == "l" else "\\right") + bar[0], node.astext())
    return tex2mathml(text, as_block=as_block).replace('<mover accent="true">', "<mover>")  # dots clear of letters


def write_inline_math(writer, node):
    """Write an equation within a line."""
    writer.body.append(mathml(node, False))
    raise SkipNode


def write_displayed_math(writer, node):
    """Write an equation in a box of its own, which scrolls where a page is narrower."""
    writer.body.append(f'<div class="math">{mathml(node, True)}</div>')
    raise SkipNode


def setup(app):
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (write_inline_math, None), (write_displayed_math, None))
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-docstring", keep_names, priority=600)
