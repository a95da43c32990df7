"""Pairs of links that an SRDF file says not to collide."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from delassus.errors import ModelError, shown
from delassus.model.tree import Tree

UNKNOWN = ("disable_default_collisions", "enable_collisions")
"""Rules that turn the meaning of the others around; they are refused."""


def ignored_of_srdf(
    robot: ElementTree.Element, path: Path, prefix: str, tree: Tree | None
) -> tuple[tuple[str, str], ...]:
    """Pairs of a parsed SRDF file; see `delassus.contact.geometry.load_ignored`."""
    pairs = []
    for element in robot:
        if element.tag in UNKNOWN:
            raise ModelError(
                f"file {str(path)!r}", "<disable_collisions>", f"<{element.tag}>", "Write out the pairs that it means."
            )
        if element.tag != "disable_collisions":
            continue
        first, second = element.get("link1"), element.get("link2")
        if not first or not second:
            raise ModelError(
                f"file {str(path)!r}", "link1 and link2 on every <disable_collisions>", shown(element.attrib),
                "Name both links.",
            )  # fmt: skip
        if tree is None or (first in tree.frames and second in tree.frames):
            pairs.append((prefix + first, prefix + second))
    return tuple(dict.fromkeys(pairs))
