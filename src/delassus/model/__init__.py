"""What a robot is: trees of links and joints, and every way to get one."""

from delassus.model import mechanisms
from delassus.model.joints import Joint, JointKind
from delassus.model.load import load
from delassus.model.tree import WORLD, Placement, Tree

__all__ = ["WORLD", "Joint", "JointKind", "Placement", "Tree", "load", "mechanisms"]
