"""Makes the compiled file of one graph into that of another with the same operators and shapes."""
