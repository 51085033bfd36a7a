"""The executables of this package; each imports its node only when it runs."""

from edgetpu_driver.ros.executable import run_main


def single_process() -> int:
    """Run the driver and the perception nodes in one process."""
    return run_main("edgetpu_perception.nodes.single_process")


def spot_tracker() -> int:
    """Run the spot tracker."""
    return run_main("edgetpu_perception.nodes.spot_tracker_node")
