"""Names of classes: from files, from a model, or of a known set."""
