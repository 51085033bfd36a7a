from setuptools import find_packages, setup

NAME = "edgetpu_driver"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["py.typed", "**/*.fbs"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/udev", ["udev/60-edgetpu.rules"]),
        ("bin", ["bin/edgetpu"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="edgetpu_ros developers",
    maintainer_email="maintainers@edgetpu-ros.invalid",
    description="Drives a USB Coral Edge TPU in pure Python.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "edgetpu = edgetpu_driver.cli.main:main",
            "edgetpu_node = edgetpu_driver.node_kit.process_entry:driver",
        ]
    },
)
