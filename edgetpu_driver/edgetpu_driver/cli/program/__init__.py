"""`edgetpu program`: assembles, disassembles, runs and single-steps custom programs."""
