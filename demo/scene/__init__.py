"""The rendered scene of the demo: a camera in a room of known geometry, as a bag."""
