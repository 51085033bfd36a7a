# The suite on ROS 2 Jazzy, built as on a robot:
#
#   docker build -t edgetpu_ros .
#   docker run --rm --net=host --ipc=host -v /dev/bus/usb:/dev/bus/usb --device-cgroup-rule='c 189:* rmw' edgetpu_ros \
#     ros2 launch edgetpu_ros bringup.launch.py backend:=usb
#
# The stick changes its USB address when its firmware is loaded; mounting the bus instead of one device allows that.
FROM ros:jazzy

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /workspace

# Only what rosdep reads, so that a change of the sources does not install everything again.
COPY package.xml src/edgetpu_ros/
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-pip \
 && rosdep update --rosdistro jazzy \
 && rosdep install --from-paths src --ignore-src -y --dependency-types=buildtool --dependency-types=build --dependency-types=exec \
 && pip install --no-cache-dir --break-system-packages ai-edge-litert==2.3.0 'numpy<2' \
 && rm -rf /var/lib/apt/lists/*

COPY . src/edgetpu_ros
RUN source /opt/ros/jazzy/setup.bash \
 && colcon build --cmake-args -DBUILD_TESTING=OFF \
 && sed -i '$i source /workspace/install/setup.bash' /ros_entrypoint.sh

# On SIGTERM, the default, `ros2 launch` would end before its nodes, and the stick would not be shut down.
STOPSIGNAL SIGINT
CMD ["ros2", "launch", "edgetpu_ros", "bringup.launch.py", "backend:=virtual"]
