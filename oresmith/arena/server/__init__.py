"""The arena over HTTP, as SN15's sandbox proxy offers it; the heavy imports are in `run`, `app` and `upstream`."""
