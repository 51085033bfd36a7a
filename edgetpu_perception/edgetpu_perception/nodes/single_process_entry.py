"""The entry point of the executable `single_process`; those of single nodes are in node_kit.process_entry."""

from edgetpu_driver.node_kit.process_entry import run_main


def main() -> int:
    """Run the driver and other nodes in one process."""
    return run_main("edgetpu_perception.nodes.single_process")
