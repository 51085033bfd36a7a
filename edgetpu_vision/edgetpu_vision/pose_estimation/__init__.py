"""Poses of people: keypoints by name, and for models that have them the masks of people and of body parts."""
