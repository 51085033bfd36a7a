"""Backends run models on a USB stick, a virtual stick or the CPU, behind one protocol."""
