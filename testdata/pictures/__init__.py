"""Pictures made for tests, and their expected results."""
