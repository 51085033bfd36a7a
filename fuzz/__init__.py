"""Fuzzing of all parsers: malformed input must raise ModelFormatError quickly and in bounded memory."""
