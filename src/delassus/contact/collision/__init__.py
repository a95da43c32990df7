"""Where colliders of a scene touch: pairs that may collide, a list of those that are near, and their contact points.

`CollisionDetector` turns poses of links into a `ContactSet`. Of the files here, `filters` says which pairs may collide,
`layout` holds the colliders as arrays, `motion` keeps the list of near pairs, `narrow` goes through that list with
`planes`, `rounds` and `boxes`, `features` makes a patch of points of two faces, and `general` asks ``coal`` about
all other pairs of shapes, whose answers `extent` checks.
"""

from delassus.contact.collision.detector import CollisionDetector

__all__ = ["CollisionDetector"]
