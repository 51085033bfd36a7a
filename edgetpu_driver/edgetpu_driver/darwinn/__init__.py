"""The compiler's output for the chip: packages, executables, DMA hints, output tiles, parameter blobs."""
