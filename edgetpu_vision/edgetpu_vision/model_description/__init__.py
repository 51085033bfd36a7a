"""What the files of a model say about its inputs and outputs beyond their shapes."""
