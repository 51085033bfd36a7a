"""The executables of this package; each imports its node only when it runs."""

from edgetpu_driver.node_kit.process_entry import run_main


def place_recognition() -> int:
    """Run the place recognition."""
    return run_main("edgetpu_matrix.nodes.place_recognition_node")


def reservoir() -> int:
    """Run the reservoir."""
    return run_main("edgetpu_matrix.nodes.reservoir_node")


def spectrum() -> int:
    """Run the spectrum."""
    return run_main("edgetpu_matrix.nodes.spectrum_node")
