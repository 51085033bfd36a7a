from setuptools import find_packages, setup

NAME = "edgetpu_matrix"

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
    description="An Edge TPU as a matrix engine: reservoirs, place recognition, spectra.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "place_recognition = edgetpu_matrix.nodes.entry_points:place_recognition",
            "reservoir = edgetpu_matrix.nodes.entry_points:reservoir",
            "spectrum = edgetpu_matrix.nodes.entry_points:spectrum",
        ]
    },
)
