"""Models of the Hub, by full commit hash only: a branch or tag can move, and then nobody can say what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from oresmith.errors import OresmithError
from oresmith.param_types import HUB_MODEL

PREFIX = "hub:"
WANTED = [
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja", "*.safetensors", "*.safetensors.index.json",
    "LICENSE*", "README.md",
]  # fmt: skip
"""What is fetched of a repository; never code, never pickles."""


class HubModel(NamedTuple):
    """A pinned model."""

    repository: str
    revision: str
    """The full commit hash."""


def parse_hub(spec: str) -> HubModel:
    """Read `hub:ORG/NAME@SHA`.

    Raises:
        OresmithError: it is not of that form; above all, not pinned by a full hash.
    """
    found = HUB_MODEL.fullmatch(spec)
    if found is None:
        raise OresmithError(
            "a model of the Hub must be pinned",
            where="base.model",
            expected="hub:ORG/NAME@SHA with the 40 hex digits of a commit; branches and tags can move",
            got=spec[:200],
            todo="take the hash from the model's page, under Files, History",
        )
    return HubModel(found[1], found[2])


def fetch_hub(model: HubModel, *, download: bool, cache: Path | None = None) -> Path:
    """The directory of a pinned model, from the local cache or, where allowed, from the Hub.

    Args:
        model: what to fetch.
        download: whether the network may be used where the cache lacks it.
        cache: the cache's directory; None for the user's.

    Raises:
        OresmithError: it is not in the cache and may not be, or cannot be, downloaded.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    where = f"{model.repository}@{model.revision}"
    absent: Exception | None = None
    for offline in (True, False) if download else (True,):
        try:
            found = snapshot_download(
                model.repository,
                revision=model.revision,
                cache_dir=cache,
                allow_patterns=WANTED,
                local_files_only=offline,
            )
        except LocalEntryNotFoundError as error:
            absent = error
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            raise OresmithError("the model cannot be downloaded", where=where, got=str(error)[:300]) from error
        else:
            return Path(found)
    raise OresmithError(
        "the model is not in the local cache",
        where=where,
        got="the Hub could not be reached" if download else "base.download is false",
        todo=f"hf download {model.repository} --revision {model.revision}"
        + ("" if download else ", or set base.download"),
    ) from absent
