"""The sticks of a host: a thread for each, which stick runs which request, and recovery of the device."""
