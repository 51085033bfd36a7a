"""`edgetpu models`: builds, compiles, retargets and imports models."""
