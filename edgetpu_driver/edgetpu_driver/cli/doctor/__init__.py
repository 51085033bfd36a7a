"""`edgetpu doctor`: checks that everything a stick needs is in place."""
