"""Custom operators that LiteRT does not implement."""
