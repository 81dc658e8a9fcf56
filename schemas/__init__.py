"""The data contracts, each with a version: one module or file a table or document that crosses a stage."""
