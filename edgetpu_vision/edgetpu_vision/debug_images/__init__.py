"""Pictures of results for people."""
