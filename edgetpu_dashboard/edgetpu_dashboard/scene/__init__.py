"""A rendered room of known geometry with a camera in it: the scene of the demo."""
