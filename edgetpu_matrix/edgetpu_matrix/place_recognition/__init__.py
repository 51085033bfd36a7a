"""Place recognition: embeddings of known places and the search for the most similar ones."""
