"""lm-eval on a model: the next tool call under teacher forcing, bits per byte of English, and tasks of one's own."""
