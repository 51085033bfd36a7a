"""The camera's geometry."""
