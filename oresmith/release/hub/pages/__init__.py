"""The Hub as pages for people. What repositories hold is hostile: it is shown as text, and nothing of it runs."""
