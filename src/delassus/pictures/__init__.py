"""Pictures of scenes: a viewer in the browser, video, plots."""

from delassus.pictures.video import write_video
from delassus.pictures.viewer import Viewer, view

__all__ = ["Viewer", "view", "write_video"]
