"""The output of the demo: results, plots, debug images, the HTML report, the GIF and the terminal."""
