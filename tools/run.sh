#!/usr/bin/env bash
# Run a command in the environment of this repository, after updating it: tools/run.sh python3 -m demo
set -eu
"$(dirname "${BASH_SOURCE[0]}")/setup.sh" >&2
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# Tests and the demo start hundreds of processes, faster with bytecode, which is kept outside the tree.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/pycache}"
exec "$@"
