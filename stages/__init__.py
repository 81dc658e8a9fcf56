"""One file a DVC stage, readable top to bottom: what it reads, the blocks it chains, what it writes."""
