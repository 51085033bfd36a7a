"""The suite's own graphs: quantised TFLite models, built from Python."""
