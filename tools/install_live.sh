#!/usr/bin/env bash
# Install what the dashboard needs into build/live_tools, unless it is there; prints that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=build/live_tools
wanted=$(sha256sum requirements-live.txt)
if [ "$(cat $tools/.complete 2>/dev/null)" != "$wanted" ]; then
  rm -rf $tools
  echo "[live] installing NiceGUI into $tools (once)" >&2
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target $tools -r requirements-live.txt >&2 || {
    echo "[live] cannot install NiceGUI: is the Python package index within reach?" >&2
    exit 2
  }
  printf '%s\n' "$wanted" >$tools/.complete
fi
printf '%s\n' "$PWD/$tools"
