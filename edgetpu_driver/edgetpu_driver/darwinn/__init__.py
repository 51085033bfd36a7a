"""What the compiler wrote for the chip: packages, executables, DMA hints, output tiles, parameter blobs."""
