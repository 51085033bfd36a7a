"""`edgetpu doctor`: what stands between this computer and a result of a stick."""
