"""`oresmith verify`: a release checked by whoever has it, from the core install alone. The table is in `checks`."""
