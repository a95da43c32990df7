"""Robots and colliders from files and models of other libraries, and back: URDF, MJCF, MuJoCo, Pinocchio."""
