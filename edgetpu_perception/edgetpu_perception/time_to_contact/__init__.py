"""Looming: time to contact with surfaces the camera approaches."""
