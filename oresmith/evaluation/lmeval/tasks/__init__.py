"""lm-eval's include_path: two tasks as YAML, and the one Python file that they name."""
