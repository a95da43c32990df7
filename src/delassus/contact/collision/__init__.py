"""Where colliders of a scene touch: pairs that may collide, a list of those that are near, and their contact points.

`CollisionDetector` makes a `ContactSet` of poses of links. Of the files here, `colliders` holds them as arrays, with
those of `meshes`, `near_pairs` keeps the list of near ones, and `narrow_phase` goes through that list: it has
closed formulas for what is round, `half_spaces` has those of planes, `convex` finds the normal of all other convex
shapes, `patches` the points in which two faces meet, and `surfaces` goes through triangles. All of this is one compiled
function, `find_contacts`. `paths` looks for contacts later in a step.
"""

from delassus.contact.collision.detector import CollisionDetector

__all__ = ["CollisionDetector"]
