"""Makes the packages importable that `tools/install_extra.sh live` has installed."""

from __future__ import annotations

import sys
from pathlib import Path

LIVE_TOOLS = Path(__file__).parents[2] / "build" / "live_tools"
if LIVE_TOOLS.is_dir():
    sys.path.append(str(LIVE_TOOLS))
