#!/usr/bin/env bash
# Write pages of the public names of the Python packages, from their docstrings, to build/docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(tools/install_extra.sh docs)
PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" python3 tools/make_docs.py build/docs edgetpu_driver edgetpu_perception edgetpu_matrix edgetpu_vision edgetpu_control edgetpu_dashboard
echo "[docs] build/docs/index.html"
