"""The computation of a virtual stick's chip: programs, their execution, and the memory of parameters."""
