"""Fuzzing of every parser: malformed input raises ModelFormatError, at once and in little memory."""
