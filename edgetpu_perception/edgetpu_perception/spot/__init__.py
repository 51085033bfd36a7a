"""What finds a bright or coloured spot in the maps of its model."""
