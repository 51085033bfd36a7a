#!/usr/bin/env bash
# Run `python -m drive` with MuJoCo, which the first run installs into build/drive_tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(tools/install_extra.sh drive)
PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m drive "$@"
