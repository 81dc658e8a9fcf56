"""The process that `server.serve` starts."""

from oresmith.release.hub.server import serve_parent

if __name__ == "__main__":
    serve_parent()
