"""Embeddings: an image as a vector of unit length."""
