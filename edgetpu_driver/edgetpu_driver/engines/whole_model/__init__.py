"""Whole models: assigns the parts of a model to engines and runs all of them."""
