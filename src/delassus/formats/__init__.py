"""Robots and colliders from files and models of other libraries, and back."""

from delassus.formats.mujoco.write import write_mjcf as write_mjcf
from delassus.formats.sdf.write import write_sdf as write_sdf
from delassus.formats.urdf.write import write_urdf as write_urdf
from delassus.formats.usd.write import write_usd as write_usd
