"""What is generated from the installed nodes: interfaces, parameter file, security policies."""
