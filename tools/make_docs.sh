#!/usr/bin/env bash
# Write pages of the public names of the Python packages, from their docstrings, to build/docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=build/docs_tools
wanted=$(sha256sum requirements-docs.txt)
if [ "$(cat $tools/.complete 2>/dev/null)" != "$wanted" ]; then
  rm -rf $tools
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target $tools -r requirements-docs.txt
  printf '%s\n' "$wanted" >$tools/.complete
fi

PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}" python3 tools/make_docs.py build/docs edgetpu_driver edgetpu_perception edgetpu_matrix edgetpu_vision edgetpu_control edgetpu_dashboard
echo "[docs] build/docs/index.html"
