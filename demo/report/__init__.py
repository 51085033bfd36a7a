"""What the demo shows: results, plots, debug images, the HTML report, the GIF and the terminal."""
