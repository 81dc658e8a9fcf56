"""Load a release back by its tag, with the libraries that its users have, in a process that knows nothing of ours."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import oresmith
from oresmith.release.publish.remote import Remote
from oresmith.release.publish.session import rest
from oresmith.release.publish.target import PublishError

_TRIES = 3
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "OMP_NUM_THREADS", "SYSTEMROOT")


def check_loaders(bundle: Path) -> None:
    """Find out before anything is sent whether the libraries are there that load it back.

    Raises:
        PublishError: one is missing.
    """
    needed = ["datasets", *(["transformers", "torch"] if (bundle / "model" / "config.json").is_file() else [])]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise PublishError(
            f"a release is loaded back before it is shown, which needs {' and '.join(missing)}",
            todo="pip install 'oresmith[data,train]'",
        )


def load_back(remote: Remote, folder: Path, revision: str) -> None:
    """Load every config of a dataset, whole and as a stream, or a model with its tokenizer, from the Hub.

    A process of its own has an empty cache and no other token, so that nothing but the Hub can answer.

    Args:
        remote: the repository.
        folder: what it must hold: rows of each config and split, tensors of the model.
        revision: the tag.

    Raises:
        PublishError: it does not load, or not as what was sent.
    """
    patience = remote.target.patience
    order = {
        "kind": remote.kind,
        "repository": remote.name,
        "revision": revision,
        "folder": str(folder.resolve()),
        "token": remote.target.token,
        "timeout": patience.timeout,
        "configs": expected_rows(folder) if remote.kind == "dataset" else {},
    }
    fault = ""
    for attempt in range(_TRIES):
        if attempt:
            rest(patience, attempt - 1, None)
        with tempfile.TemporaryDirectory(prefix="oresmith-load-") as home:
            told = _run(order, _environment(Path(home), remote.target.endpoint), patience.load_seconds)
        if told.get("loaded"):
            return
        fault = str(told.get("fault"))[:600]
        if told.get("differs"):
            break
    raise PublishError(
        "the release does not load back by its tag",
        where=f"{remote} at {revision}",
        got=fault,
        todo="the tag stays and main does not hold it: mend the cause, then publish again, or under a new version",
    )


def expected_rows(folder: Path) -> dict[str, dict[str, int]]:
    """Rows of each config and split, from the card's front matter and the Parquet files of the folder.

    Raises:
        PublishError: the card names no configs, or files that are not there.
    """
    import pyarrow.parquet as pq

    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))
    rows = {path: pq.ParquetFile(folder / path).metadata.num_rows for path in paths}
    found: dict[str, dict[str, int]] = {}
    for config in _configs(folder / "README.md"):
        files = config.get("data_files")
        splits = files if isinstance(files, list) else [{"split": "train", "path": files}]
        counts = {}
        for split in splits:
            patterns = split["path"] if isinstance(split["path"], list) else [split["path"]]
            taken = [path for path in paths if any(fnmatchcase(path, str(pattern)) for pattern in patterns)]
            if not taken:
                raise PublishError(
                    "the card names files that are not there", where=str(folder), got=str(patterns)[:200]
                )
            counts[str(split["split"])] = sum(rows[path] for path in taken)
        found[str(config["config_name"])] = counts
    return found


def front_matter(card: Path) -> dict[str, Any]:
    """The YAML mapping at the head of a card; empty where there is none that can be read."""
    import yaml

    text = card.read_text(encoding="utf-8", errors="replace")
    head = text.split("\n---", 1)[0].removeprefix("---\n") if text.startswith("---\n") else ""
    try:
        found = yaml.safe_load(head)
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


def _configs(card: Path) -> list[dict[str, Any]]:
    configs = front_matter(card).get("configs")
    if not isinstance(configs, list) or not all(isinstance(one, dict) and "config_name" in one for one in configs):
        raise PublishError("the card's front matter lists no configs", where=str(card))
    return configs


def _environment(home: Path, endpoint: str) -> dict[str, str]:
    package = Path(oresmith.__file__).parent.parent
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        **{name: value for name, value in os.environ.items() if name.startswith("HF_XET_CLIENT_")},
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "DO_NOT_TRACK": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _run(order: Mapping[str, Any], environment: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """The loader's last line. The token goes through its standard input: other users can read argument lists."""
    command = [sys.executable, "-m", "oresmith.release.publish.loader"]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=json.dumps(order).encode(),
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"fault": f"not loaded within {seconds:.0f} seconds"}
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        told = None
    if not isinstance(told, dict):
        return {"fault": f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}"}
    return told
