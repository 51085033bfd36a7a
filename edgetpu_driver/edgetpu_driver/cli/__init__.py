"""The command `edgetpu`: what a person at a terminal asks of sticks and models."""
