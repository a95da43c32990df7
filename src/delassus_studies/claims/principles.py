"""What each paper is about, in one picture: trees whose joints are as wide as what an algorithm carries across them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import delassus as ds
from delassus.model.mechanisms import asimo, comb, pendulum, stem
from delassus.model.tree import WORLD
from delassus.pictures.plots import COLOURS, LARGE, SMALL, save_figure
from delassus_studies.cases import Case
from delassus_studies.figures import BLUE, ORANGE, side_by_side
from delassus_studies.loop_mechanisms import four_bars, rungs

Rows = Mapping[int, int]
"""Rows of constraints by link."""

ROW, LINK, HELD = ORANGE, "0.25", BLUE
"""Colours of what is carried, of links, and of links that are held."""
FREE = 6
"""Freedoms of a base that nothing holds."""


def carried(tree: ds.Tree, rows: Rows, across: Callable[[int, int], int]) -> list[int]:
    """Rows on the parent's side of each joint: ``across`` a joint of so many freedoms, of so many beyond it."""
    total = [rows.get(i, 0) for i in range(tree.n_links)]
    out = [0] * tree.n_links
    for i in tree.leaves_to_root():
        out[i] = across(total[i], tree.joints[i].nv)
        if tree.parents[i] != WORLD:
            total[tree.parents[i]] += out[i]
    return out


def every_row(rows: int, _: int) -> int:
    """PV-OSIM and PV: all rows go on to the root."""
    return rows


def six(rows: int, _: int) -> int:
    """PV-OSIMr: beyond six rows, those of a rigid body go on in their place."""
    return min(rows, 6)


def eliminating(rows: int, freedoms: int) -> int:
    """PV-early: each freedom of a joint eliminates a row, which goes no further."""
    return max(0, rows - freedoms)


def places(tree: ds.Tree) -> list[tuple[float, float]]:
    """Of links: depth to the right, leaves one above the other."""
    height = [0.0] * tree.n_links
    leaves = 0
    for i in reversed(range(tree.n_links)):
        children = tree.children[i]
        height[i] = sum(height[c] for c in children) / len(children) if children else float(leaves)
        leaves += not children
    return [(len(tree.support(i)), height[i]) for i in range(tree.n_links)]


def draw_tree(ax: Any, tree: ds.Tree, rows: Rows, numbers: list[int], title: str) -> None:
    """Links as points, those that are held as squares; joints as wide as the number of rows, which is beside them."""
    at = places(tree)
    for i, (x, y) in enumerate(at):
        if tree.parents[i] != WORLD or tree.joints[i].nv < FREE:
            a, b = at[tree.parents[i]] if tree.parents[i] != WORLD else (x - 1, y)
            ax.plot((a, x), (b, y), color=ROW if numbers[i] else "0.75", linewidth=0.8 + 0.22 * numbers[i], zorder=1)
            beyond = [numbers[c] for c in tree.children[i]]
            if numbers[i] and beyond != [numbers[i]]:
                ax.annotate(str(numbers[i]), ((a + x) / 2, (b + y) / 2), (0, 4), textcoords="offset points",
                            ha="center", fontsize=SMALL)  # fmt: skip
    free = [place for i, place in enumerate(at) if i not in rows]
    held = [at[i] for i in rows]
    ax.plot(*zip(*free, strict=True), "o", color=LINK, markersize=3, zorder=2)
    ax.plot(*zip(*held, strict=True), "s", color=HELD, markersize=6, zorder=2)
    ax.set_title(title, fontsize=LARGE)
    ax.margins(0.05, 0.15)
    ax.axis("off")


def links(tree: ds.Tree, *names: str) -> list[int]:
    """Indices of links, by names of links or frames."""
    return [tree.placement(name).link for name in names]


def _two(ax: Any, tree: ds.Tree, rows: Rows, rules: Mapping[str, Callable[[int, int], int]]) -> None:
    for each, (title, rule) in zip(ax, rules.items(), strict=True):
        draw_tree(each, tree, rows, carried(tree, rows, rule), title)


def fingers(ax: Any) -> None:
    """[r1]: a hand whose fingertips are held, on a humanoid robot."""
    tree = asimo(hand_dofs=12)
    tips = [i for i in range(tree.n_links) if not tree.children[i] and "head" not in tree.link_names[i]]
    _two(ax, tree, dict.fromkeys(tips, 3), {"PV-OSIM: rows across each joint": every_row, "PV-OSIMr": six})


def limbs(ax: Any) -> None:
    """[r2]: its Fig. 3a."""
    tree = stem(8, 3, 4)
    tips = [i for i in range(tree.n_links) if not tree.children[i]]
    _two(ax, tree, dict.fromkeys(tips, 6), {"PV-OSIM: rows across each joint": every_row, "PV-OSIMr": six})


def ladder(ax: Any) -> None:
    """[LQR]: its Fig. 4b."""
    tree = comb(3)
    ends = dict.fromkeys(links(tree, *(f"rung{k}_7" for k in (1, 2, 3))), 6)
    _two(ax, tree, ends, {"PV: rows across each joint": every_row, "PV-early": eliminating})


def end_effectors(ax: Any) -> None:
    """[EFPA]: from each end-effector to all links that support it."""
    tree, (axes,) = asimo(), ax
    ends = links(tree, "hand1", "hand2", "foot1", "foot2")
    title = "a force on each end-effector, at each link that supports it; rings: where two have their block in common"
    draw_tree(axes, tree, dict.fromkeys(ends, 6), [0] * tree.n_links, title)
    at = places(tree)
    for k, end in enumerate(ends):
        path = [at[i] for i in tree.support(end)]
        axes.plot(
            [x for x, _ in path], [y + 0.12 * (k - 1.5) for _, y in path], color=COLOURS[k], linewidth=2, zorder=0
        )
    meet = {tree.closest_common_ancestor(a, b) for a in ends for b in ends if a < b}
    axes.plot(*zip(*(at[i] for i in meet), strict=True), "o", color="none", markeredgecolor="k", markersize=12)


def hinges(ax: Any) -> None:
    """[OS]: unknowns at hinges and contacts."""
    tree = pendulum(6)
    contacts = dict.fromkeys(range(2, 6), 6)
    for each, title, own in ((ax[0], "NMC/OS: five unknowns a hinge, six a contact: 24 + 5 n", 5),
                             (ax[1], "OS: hinges eliminated, 24", 0)):  # fmt: skip
        draw_tree(each, tree, contacts, [own] * tree.n_links, title)
        for x, y in (places(tree)[i] for i in contacts):
            each.plot((x, x), (y, y - 0.5), color=ROW, linewidth=0.8 + 0.22 * 6, zorder=0)
            each.annotate("6", (x, y - 0.3), (5, 0), textcoords="offset points", fontsize=SMALL)
        each.set_ylim(-0.8, 0.5)


def _tied(ax: Any, case: Case, title: str, held: Rows) -> None:
    """A tree and, as arcs, the loops that close on it."""
    draw_tree(ax, case.tree, held, [0] * case.tree.n_links, title)
    at = places(case.tree)
    for c in case.constraints:
        (a, b), (x, y) = (at[i] for i in c.carriers(case.tree)), (0.0, 0.3)
        ax.annotate("", b, a, arrowprops={"arrowstyle": "-", "color": ROW, "connectionstyle": f"arc3,rad={x + y}"})


def loops(ax: Any) -> None:
    """[LCABA]: forces of loops on a ladder, which couple both rails until they are eliminated."""
    _tied(ax[0], four_bars(4), "local loops: each is eliminated where it closes", {})
    _tied(ax[1], rungs(4), "a ladder: both rails at once, blocks between them", {})


def clusters(ax: Any) -> None:
    """[clusters]: what loops tie moves as one; squares are the links that later clusters hang from."""
    case = four_bars(4)
    (axes,) = ax
    on = {i: 6 for i, name in enumerate(case.tree.link_names) if name.startswith("coupler")}
    _tied(axes, case, "one cluster a loop; squares are links that the next one hangs from", on)


PICTURES: Mapping[str, tuple[Callable[[Any], None], int]] = {
    "[r1]": (fingers, 2),
    "[r2]": (limbs, 2),
    "[LQR]": (ladder, 2),
    "[EFPA]": (end_effectors, 1),
    "[OS]": (hinges, 2),
    "[LCABA]": (loops, 2),
    "[clusters]": (clusters, 1),
}
"""What draws the picture of a paper, and its number of panels."""


def draw_principle(paper: str, folder: Path) -> Path:
    """Draw the picture of a paper into a folder."""
    draw, panels = PICTURES[paper]
    figure, axes = side_by_side(panels)
    draw(axes)
    return save_figure(figure, folder / f"{paper.strip('[]').lower()}.png")
