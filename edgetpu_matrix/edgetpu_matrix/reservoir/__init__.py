"""Reservoir computing: an echo-state network and its trained readout."""
