"""What is known of a trajectory: facts from its record, each with its source, no thresholds."""
