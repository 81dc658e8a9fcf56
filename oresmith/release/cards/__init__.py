"""Cards of a release: what a reader sees, every number of it with the file and key that it comes from."""
