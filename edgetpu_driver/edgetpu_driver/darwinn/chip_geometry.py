"""The chip's grid of tiles and the cells of a tile, as masks and layouts of all compiled files show them."""

from __future__ import annotations

TILES_PER_SIDE = 4
TILES = TILES_PER_SIDE**2
"""Images are cut into this grid. Masks in instructions have a bit for each tile."""
ALL_TILES = (1 << TILES) - 1
"""The mask of all tiles."""
CELLS = 64
"""Cells of a tile. Each computes one output channel at a time, so that parameters come in groups of 64."""
INPUTS_PER_CELL = 4
"""Input channels that a cell multiplies in one cycle. Their weights are next to each other."""
