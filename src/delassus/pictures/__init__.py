"""Pictures of scenes: a viewer in the browser, video, plots, files for other viewers."""

from delassus.pictures.exports import export
from delassus.pictures.video import write_video
from delassus.pictures.viewer import Viewer, view

__all__ = ["Viewer", "export", "view", "write_video"]
