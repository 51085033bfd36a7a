#!/usr/bin/env bash
# Generates, next to every FlatBuffers schema of the driver, the Python functions that write its tables.
# Needs flatc 2.0.8 (Debian and Ubuntu: apt-get install flatbuffers-compiler); others write other code.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v flatc >/dev/null || { echo "flatc is missing: apt-get install flatbuffers-compiler" >&2; exit 1; }

for schema in edgetpu_driver/edgetpu_driver/*/schema/*.fbs; do
  flatc --python --gen-onefile -o "$(dirname "$schema")" "$schema"
  python3 tools/strip_flatbuffer_readers.py "${schema%.fbs}_generated.py"
  echo "generated from $schema"
done
