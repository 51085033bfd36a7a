"""Bytes on the wire: the USB link, the registers behind it, the firmware."""
