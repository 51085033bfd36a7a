#!/usr/bin/env bash
# Run the dashboard with the named nodes, camera and driver; the arguments are those of tools/run_live.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(tools/install_extra.sh live)
PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" exec python3 tools/run_live.py "$@"
