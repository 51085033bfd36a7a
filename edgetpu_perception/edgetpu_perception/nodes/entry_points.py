"""The executables of this package; each imports its node only when it runs."""

from edgetpu_driver.node_kit.process_entry import run_main


def single_process() -> int:
    """Run the driver and the perception nodes in one process."""
    return run_main("edgetpu_perception.nodes.single_process")


def looming() -> int:
    """Run the time to contact."""
    return run_main("edgetpu_perception.nodes.looming_node")


def optical_flow() -> int:
    """Run the optical flow."""
    return run_main("edgetpu_perception.nodes.optical_flow_node")


def pattern_tracker() -> int:
    """Run the pattern tracker."""
    return run_main("edgetpu_perception.nodes.pattern_tracker_node")


def spot_tracker() -> int:
    """Run the spot tracker."""
    return run_main("edgetpu_perception.nodes.spot_tracker_node")


def visual_compass() -> int:
    """Run the visual compass."""
    return run_main("edgetpu_perception.nodes.visual_compass_node")
