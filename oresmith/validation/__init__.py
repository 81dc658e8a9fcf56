"""What is checked of a finished corpus beyond a table's own contract, and the report that shows it."""
