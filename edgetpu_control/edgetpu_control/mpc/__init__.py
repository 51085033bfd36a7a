"""Model predictive control by sampling: action sequences are tried on a learned model, the best are kept."""
