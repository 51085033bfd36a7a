"""The chip's grid of tiles and the cells of a tile, inferred from masks and layouts in compiled files."""

from __future__ import annotations

TILES_PER_SIDE = 4
TILES = TILES_PER_SIDE**2
"""Images are split into this grid. Masks in instructions have one bit per tile."""
ALL_TILES = (1 << TILES) - 1
"""The mask of all tiles."""
CELLS = 64
"""Cells per tile. Each computes one output channel at a time, so parameters come in groups of 64."""
INPUTS_PER_CELL = 4
"""Input channels that a cell multiplies in one cycle. Their weights are adjacent."""
