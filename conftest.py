"""Loads the packages before pytest takes the folders of the same name at the root for them."""

import edgetpu_driver  # noqa: F401
import edgetpu_matrix  # noqa: F401
import edgetpu_perception  # noqa: F401

pytest_plugins = ["testdata.pytest_plugin"]
