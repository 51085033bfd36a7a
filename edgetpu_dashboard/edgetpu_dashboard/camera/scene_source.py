"""The rendered scene as a source of pictures, repeated without end."""

from __future__ import annotations

from edgetpu_dashboard.camera.source import Pixels
from edgetpu_dashboard.scene.scene import Scene, SceneRenderer


class SceneSource:
    """Renders what the camera of the scene sees; restarts at the end."""

    waits = False

    def __init__(self, width: int, height: int, horizontal_fov: float) -> None:
        """width, height: px. horizontal_fov: rad."""
        self._scene = Scene(width=width, height=height, field_of_view=horizontal_fov)
        self._renderer = SceneRenderer(self._scene)

    def read(self, seconds: float) -> Pixels:
        """Render the view at this time since the start."""
        return self._renderer.picture(int(seconds * self._scene.rate) % self._scene.frames)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
