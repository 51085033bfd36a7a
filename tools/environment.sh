# To be sourced by bash: the ROS environment of this repository.
#
# If a ROS 2 is already sourced, only our own install tree is added. Otherwise the virtual environment of
# tools/setup.sh is used: its interpreter, its ament prefix and the library folders of its wheels (without
# these, every Python process would start twice to find them).

_edgetpu_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

if [ -z "${ROS_DISTRO:-}" ] && [ -d "$_edgetpu_root/.venv" ]; then
  _edgetpu_venv="$_edgetpu_root/.venv"
  export VIRTUAL_ENV="$_edgetpu_venv"
  export ROS_DISTRO=jazzy ROS_VERSION=2 ROS_PYTHON_VERSION=3
  export PATH="$_edgetpu_venv/bin:$PATH"
  export AMENT_PREFIX_PATH="$_edgetpu_venv"
  export CMAKE_PREFIX_PATH="$_edgetpu_venv"
  LD_LIBRARY_PATH="$_edgetpu_venv/lib$(printf ':%s' "$_edgetpu_venv"/lib/python3.*/site-packages/ros_*.libs)"
  export LD_LIBRARY_PATH
  export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
fi

if [ -z "${EDGETPU_SKIP_INSTALL:-}" ] && [ -f "$_edgetpu_root/install/local_setup.bash" ]; then
  # colcon's scripts read variables that may be unset.
  case $- in *u*) _edgetpu_nounset=1; set +u ;; *) _edgetpu_nounset= ;; esac
  . "$_edgetpu_root/install/local_setup.bash"
  [ -z "$_edgetpu_nounset" ] || set -u
fi

unset _edgetpu_root _edgetpu_venv _edgetpu_nounset
