"""The shared memory through which Fast DDS sends messages on one computer."""
