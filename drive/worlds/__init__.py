"""The simulated worlds in MuJoCo."""
