"""Makes `python -m edgetpu_driver.cli` the command `edgetpu`."""

from __future__ import annotations

import sys

from edgetpu_driver.cli.entry_point import main

sys.exit(main())
