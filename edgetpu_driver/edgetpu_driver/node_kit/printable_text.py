"""Text of any origin as one printable line, for logs, diagnostics and answers."""

from __future__ import annotations

LONGEST = 1000
"""Longest text, characters; longer text is cut in the middle."""


def one_line(text: object, longest: int = LONGEST) -> str:
    """Return the text on one line, without control characters and of at most `longest` characters.

    White space becomes one space; what cannot be printed or encoded as UTF-8, an escape sequence such as
    "\\x1b" or "\\udcff". Names of files, topics and models reach the log this way.
    """
    raw = str(text)
    if len(raw) <= longest and raw.isprintable():
        return raw
    if len(raw) > 2 * longest:  # enough to choose from, even if much of it is white space
        raw = f"{raw[:longest]}{raw[-longest:]}"
        cut = True
    else:
        cut = False
    line = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in " ".join(raw.split())
    )
    if cut or len(line) > longest:
        half = (longest - 5) // 2
        line = f"{line[:half]} ... {line[-half:]}"
    return line


def counted(count: int, noun: str) -> str:
    """Put a number before a noun whose plural ends in s: "1 example", "2 examples"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def describe(error: BaseException) -> str:
    """Return the type and the message of an unexpected exception on one line."""
    text = one_line(error)
    return f"unexpected {type(error).__name__}{': ' if text else ''}{text}"
