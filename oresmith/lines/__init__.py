"""Lines of files that nobody vouches for: every byte of a stream accounted for, every value parsed strictly."""
