"""Real weights as int8, where a model keeps its weights, and how they lie in its parameters."""
