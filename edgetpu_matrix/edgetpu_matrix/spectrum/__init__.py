"""Amplitude spectra of sampled signals, as a matrix product."""
