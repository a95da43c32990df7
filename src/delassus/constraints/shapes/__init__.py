"""Where shapes touch planes, rays and one another, in the vocabulary of `delassus.spatial.ops.Ops`.

================== ==================================================
`lowest_points`    points of a shape that may touch a plane
`nearest_points`   pairs in closed form: spheres and capsules, balls
                   beside boxes, cylinders and hulls, capsules on boxes
`convex_distance`  gap and normal of any two convex shapes, by a loop
`convex_patch`     the patch on which these face each other
`rays`             whether a ray meets a shape
================== ==================================================
"""
