"""Objects that move independently in view of the compass: found, left out of turns, allowed for in sigmas."""
