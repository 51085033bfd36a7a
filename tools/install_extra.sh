#!/usr/bin/env bash
# Install the optional packages of requirements-NAME.txt into build/NAME_tools, unless they are there, and
# print this folder: tools/install_extra.sh live, drive or docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=${1:-}
requirements=requirements-$name.txt
if [ $# -ne 1 ] || [ ! -f "$requirements" ]; then
  echo "expected live, drive or docs; got '$*'" >&2
  exit 2
fi

tools=build/${name}_tools
wanted=$(sha256sum "$requirements"; python3 -V)
if [ "$(cat "$tools/.complete" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$tools.new"
  echo "[$name] installing the packages of $requirements into $tools (once)" >&2
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$tools.new" -r "$requirements" >&2 || {
    echo "[$name] cannot install the packages of $requirements: is the Python package index within reach?" >&2
    exit 2
  }
  printf '%s\n' "$wanted" >"$tools.new/.complete"
  rm -rf "$tools"
  mv "$tools.new" "$tools"
fi
printf '%s\n' "$PWD/$tools"
