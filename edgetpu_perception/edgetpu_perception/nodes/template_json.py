"""A template of the pattern tracker as values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgetpu_perception.nodes.persistent_state import StateError
from edgetpu_perception.pattern_tracker.fine_patch import LEAST_PX, MOST_PX, FinePatch
from edgetpu_perception.pattern_tracker.template import Template


def template_state(template: Template) -> dict[str, Any]:
    """Return the fields of a template as lists and numbers."""
    return {
        "values": template.values.tolist(),
        "mask": template.mask.astype(int).tolist(),
        "size": list(template.size),
        "offset": list(template.offset),
        "clipped": template.clipped,
        "fine": None if template.fine is None else _fine_state(template.fine),
        "region_scale": template.region_scale,
        "px_aspect": template.px_aspect,
    }


def _fine_state(fine: FinePatch) -> dict[str, Any]:
    return {
        "values": fine.values.tolist(),
        "mask": fine.mask.astype(int).tolist(),
        "scale": [fine.x_scale, fine.y_scale],
        "offset": list(fine.offset),
        "smooth": fine.smooth,
        "finer": None if fine.finer is None else _fine_state(fine.finer),
    }


def template_from_state(state: Mapping[str, Any]) -> Template:
    """Make a template from the fields that `template_state` returned. Raises StateError for anything else."""
    try:
        values = np.array(state["values"], np.float32)
        mask = np.array(state["mask"], np.float32)
        height, width = (int(length) for length in state["size"])
        right, down = (float(offset) for offset in state["offset"])
        clipped = float(state["clipped"])
        fine = None if state["fine"] is None else _fine_from_state(state["fine"])
        region_scale = None if state["region_scale"] is None else float(state["region_scale"])
        px_aspect = state.get("px_aspect")  # absent from templates that an earlier version kept
        px_aspect = None if px_aspect is None else float(px_aspect)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"expected a template: {error}") from error
    if values.ndim != 2 or mask.shape != values.shape or not mask.any():
        raise StateError(f"expected grey levels and a mask [h, w]; got {values.shape} and {mask.shape}")
    if not (np.all((values >= 0) & (values <= 255)) and np.all((mask == 0) | (mask == 1))):
        raise StateError("expected grey levels of 0 to 255, and 0 or 1 in the mask")
    fits = 0 < height <= values.shape[0] and 0 < width <= values.shape[1]
    if not (fits and math.hypot(right, down) < 1e6 and 0 <= clipped <= 1):
        raise StateError("expected a size within the template, an offset and a share")
    if region_scale is not None and not 0 < region_scale <= 1:
        raise StateError(f"expected a region_scale above 0 and up to 1; got {region_scale}")
    if px_aspect is not None and not 1e-6 < px_aspect < 1e6:
        raise StateError(f"expected a px_aspect between 1e-6 and 1e6; got {px_aspect}")
    size, offset = (height, width), (right, down)
    return Template(values, mask.astype(bool), size, offset, clipped, fine, region_scale, px_aspect)


def _fine_from_state(state: Mapping[str, Any], most: int = MOST_PX) -> FinePatch:
    """Make a fine patch of up to `most` px a side again; KeyError, TypeError or ValueError for anything else.

    States of earlier versions lack `smooth` and `finer`; their patches are made of plain averages.
    """
    values, mask = np.array(state["values"], np.float32), np.array(state["mask"], np.float32)
    x_scale, y_scale = (float(scale) for scale in state["scale"])
    right, down = (float(offset) for offset in state["offset"])
    fits = values.ndim == 2 and min(values.shape) >= LEAST_PX and max(values.shape) <= most
    if not fits or mask.shape != values.shape or not mask.any():
        raise ValueError(f"expected a fine patch of {LEAST_PX} to {most} px a side; got {values.shape}")
    if not (np.all((values >= 0) & (values <= 255)) and np.all((mask == 0) | (mask == 1))):
        raise ValueError("expected grey levels of 0 to 255, and 0 or 1 in the mask")
    if not (0.1 < x_scale < 100 and 0.1 < y_scale < 100 and math.hypot(right, down) < 1e6):
        raise ValueError("expected scales of a fine patch and its offset")
    smooth, finer = state.get("smooth", False), state.get("finer")
    if not isinstance(smooth, bool):
        raise ValueError(f"expected smooth to be true or false; got {smooth!r}")
    return FinePatch(
        values,
        mask.astype(bool),
        x_scale,
        y_scale,
        (right, down),
        smooth,
        None if finer is None else _fine_from_state(dict(finer, finer=None), 2 * MOST_PX),
    )
