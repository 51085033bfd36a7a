"""The description of a model's inputs and outputs in its files, beyond their shapes."""
