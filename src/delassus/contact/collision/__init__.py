"""Where colliders of a scene touch: pairs that may collide, a list of those that are near, and their contact points.

`CollisionDetector` makes a `ContactSet` of poses of links. Of the files here, `filters` says which pairs may collide,
`colliders` holds them as arrays, `near_pairs` keeps the list of near ones, `narrow_phase` goes through that list with
`half_spaces` and `spheres_capsules`, `boxes` has those of boxes, `patches` makes points of two faces, and `coal_pairs`
asks ``coal`` about all other pairs of shapes.
"""

from delassus.contact.collision.detector import CollisionDetector

__all__ = ["CollisionDetector"]
