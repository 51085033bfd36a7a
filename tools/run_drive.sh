#!/usr/bin/env bash
# Run `python -m drive` with MuJoCo, which is installed into build/drive_tools the first time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=build/drive_tools
wanted=$(sha256sum requirements-drive.txt)
if [ "$(cat $tools/.complete 2>/dev/null)" != "$wanted" ]; then
  rm -rf $tools
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target $tools -r requirements-drive.txt || {
    echo "[drive] cannot install MuJoCo: is the Python package index within reach?" >&2
    exit 2
  }
  printf '%s\n' "$wanted" >$tools/.complete
fi

PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m drive "$@"
