"""YAML as users write it: a key twice is refused, a date stays text, and nothing but plain values is ever built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

READ_FAULTS = (yaml.YAMLError, UnicodeDecodeError, ValueError, KeyError, RecursionError, OverflowError, OSError)
"""What reading can raise on any file: PyYAML lets the faults of its own conversions through."""
MAX_BYTES = 4 * 2**20


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """The safe loader without dates, and with each key once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping.

        Raises:
            yaml.constructor.ConstructorError: a key stands twice; the last one would win silently.
        """
        seen = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value) if isinstance(key_node, yaml.ScalarNode) else id(key_node)
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "a key stands twice", key_node.start_mark)
            seen.add(key)
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return made


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> Any:
    """Read one YAML document.

    Args:
        path: a regular file of at most `MAX_BYTES`.

    Raises:
        FileNotFoundError: nothing there.
        READ_FAULTS: not readable, too large, or not such YAML.
    """
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return yaml.load(text.decode("utf-8"), Loader=_Loader)  # noqa: S506 (a subclass of SafeLoader)
