#!/usr/bin/env bash
# Run `python -m drive` with MuJoCo, which is installed into build/drive_tools the first time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(tools/install_extra.sh drive)
PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m drive "$@"
