from setuptools import find_packages, setup

NAME = "edgetpu_perception"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="edgetpu_ros developers",
    maintainer_email="maintainers@edgetpu-ros.invalid",
    description="Camera images to servo errors, yaw and time to contact on an Edge TPU.",
    license="Apache-2.0",
    entry_points={
        "edgetpu.graphs": ["edgetpu_perception = edgetpu_perception.graphs.families:FAMILIES"],
        "console_scripts": [
            "looming = edgetpu_perception.nodes.entry_points:looming",
            "optical_flow = edgetpu_perception.nodes.entry_points:optical_flow",
            "pattern_tracker = edgetpu_perception.nodes.entry_points:pattern_tracker",
            "single_process = edgetpu_perception.nodes.entry_points:single_process",
            "spot_tracker = edgetpu_perception.nodes.entry_points:spot_tracker",
            "visual_compass = edgetpu_perception.nodes.entry_points:visual_compass",
        ],
    },
)
