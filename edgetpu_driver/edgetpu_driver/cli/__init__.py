"""The command `edgetpu`: inspect, run and prepare models and sticks from a terminal."""
