"""What turns two views into surfaces, their approach and the edges they show."""
