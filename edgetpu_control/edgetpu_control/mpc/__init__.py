"""Model predictive control by sampling: tries action sequences on a learned model and keeps the best."""
