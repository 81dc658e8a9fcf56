"""The certificate of a release: what is in it, what stands apart in it, and how anyone can check both."""
