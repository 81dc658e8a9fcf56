"""What the Hub's clients call: one module a topic, each with a list of routes."""
