"""`edgetpu program`: programs of one's own as text and as bytes, run and stepped through on a stick."""
