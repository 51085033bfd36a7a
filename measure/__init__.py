"""What `make bench` and `make accuracy` have in common: measured figures and their two forms."""
