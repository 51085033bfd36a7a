"""What the chip of a virtual stick computes: programs, their execution, and the memory of parameters."""
