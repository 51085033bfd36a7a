"""Entry point of `single_process`; executables of single nodes start in node_kit.process_entry."""

from edgetpu_driver.node_kit.process_entry import run_main


def single_process() -> int:
    """Run the driver and other nodes in one process."""
    return run_main("edgetpu_perception.nodes.single_process")
