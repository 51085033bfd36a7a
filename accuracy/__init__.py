"""How accurate the perception algorithms are, measured on scenes whose truth is known (`make accuracy`)."""
