"""The front matter by which `datasets.load_dataset` finds configs; the card's text comes with the release."""

from __future__ import annotations

from typing import Any

import yaml

from oresmith.corpus.shards import File

DEFAULT = "trajectories"


def front_matter(files: list[File]) -> str:
    """README.md of a corpus: its configs, splits and their files.

    A split without rows is left out, and so is a config without splits: `load_dataset` fails on a split that has no
    file or no row, and takes the whole config with it.
    """
    configs: dict[str, list[str]] = {}
    for file in files:
        splits = configs.setdefault(file.config, [])
        if file.split not in splits:
            splits.append(file.split)
    entries: list[dict[str, Any]] = [
        {
            "config_name": config,
            **({"default": True} if config == DEFAULT else {}),
            "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in splits],
        }
        for config, splits in configs.items()
    ]
    return f"---\n{yaml.safe_dump({'configs': entries}, sort_keys=False)}---\n"
