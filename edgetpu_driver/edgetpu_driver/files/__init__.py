"""Files: read with limits, written atomically; FlatBuffers read with every offset checked; default paths."""
