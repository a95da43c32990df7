"""Shapes in coal, made here."""

import coal

from delassus.contact import Box, Capsule, Cylinder, Ellipsoid, Sphere


def coal_shape(shape):
    """The same shape in coal."""
    match shape:
        case Sphere():
            return coal.Sphere(shape.radius)
        case Capsule():
            return coal.Capsule(shape.radius, shape.length)
        case Box():
            return coal.Box(shape.x, shape.y, shape.z)
        case Cylinder():
            return coal.Cylinder(shape.radius, shape.length)
        case Ellipsoid():
            return coal.Ellipsoid(shape.x, shape.y, shape.z)
    points, model = coal.StdVec_Vec3s(), coal.BVHModelOBBRSS()
    for v in shape.vertices:
        points.append(v)
    model.beginModel(0, len(points))
    model.addSubModel(points)
    model.endModel()
    model.buildConvexHull(True, "Qt")
    return model.convex
