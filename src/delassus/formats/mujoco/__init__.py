"""MJCF and models of MuJoCo, read and written."""
