"""Front matter of the cards: a YAML writer makes it from the schemas and figures, strings are never put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml

from oresmith.params import Params
from oresmith.release.cards.escape import visible
from oresmith.release.cards.numbers import Numbers
from oresmith.release.cards.sources import released, tag_of
from oresmith.release.cards.values import Values, pointer
from oresmith.release.layout import CONFIGS, ROLLOUTS
from schemas.corpus import CONFIGS as COLUMNS
from schemas.rollouts import COLUMNS as ROLLOUT_COLUMNS

DEFAULT = "trajectories"
CERTIFICATE = "certificate/certificate.json"
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))


def dataset_front_matter(params: Params, configs: Mapping[str, Sequence[str]], numbers: Numbers, values: Values) -> str:
    """Front matter of the dataset card: configs, splits, features, sizes, licence, languages, tags.

    Args:
        params: for names, licence, languages and tags.
        configs: config -> its splits that have rows, in order.
        numbers: takes the sizes.
        values: the dataset's files.
    """
    release = params.release
    total = sum(
        int(values.value(CERTIFICATE, pointer("counts", config, split, "rows")) or 0)
        for config, splits in configs.items()
        if config not in (ROLLOUTS, "rejects")
        for split in splits
    )
    tree: dict[str, Any] = {
        "pretty_name": visible(release.title),
        "license": release.licence,
        "language": list(release.languages),
        "task_categories": ["text-generation"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>10M")],
        "tags": list(release.tags),
        "configs": [
            {
                "config_name": config,
                **({"default": True} if config == DEFAULT else {}),
                "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in splits],
            }
            for config, splits in configs.items()
        ],
        "dataset_info": [_info(config, splits, numbers) for config, splits in configs.items()],
    }
    return written(numbers.plain(tree))


def model_front_matter(params: Params, base: str | None, numbers: Numbers) -> str:
    """Front matter of the model card, with its scores as `model-index`.

    Args:
        params: for names, licence, languages and tags.
        base: the Hub's name of the model that everything started from, if it has one.
        numbers: takes the scores.
    """
    release = params.release
    tree: dict[str, Any] = {
        "license": release.model_licence,
        "language": list(release.languages),
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": list(release.tags),
        "datasets": [release.dataset],
        **({"base_model": base} if base else {}),
        "model-index": [{"name": release.weights.partition("/")[2], "results": [_result(params, numbers)]}],
    }
    return written(numbers.plain(tree))


def eval_result(params: Params, numbers: Numbers) -> str:
    """A file of `.eval_results/`: the released model's success rate on the held-out problems of this dataset."""
    scores = f"scores/{released(params).name}.json"
    entry = {
        "dataset": {
            "id": params.release.dataset,
            "task_id": "heldout",
            "revision": tag_of(params.release.version),
        },
        "value": numbers.sourced(scores, "/overall/asr/share"),
        "source": {
            "url": f"https://huggingface.co/datasets/{params.release.dataset}",
            "name": visible(params.release.title),
        },
        "notes": "strict success rate; k, n and the interval are on the model card",
    }
    return _yaml(numbers.plain([entry], "document"))


def written(tree: object) -> str:
    """A tree of plain values as front matter, both fences included."""
    return f"---\n{_yaml(tree)}---\n"


def feature(kind: pa.DataType) -> dict[str, Any]:
    """A column's type as `dataset_info` writes it (`datasets.Features._to_yaml_list`)."""
    if isinstance(kind, pa.JsonType):
        return {"dtype": "json"}
    if pa.types.is_list(kind):
        return {"list": feature(kind.value_type)["dtype"]}
    return {"dtype": "float64" if pa.types.is_float64(kind) else str(kind)}


def _info(config: str, splits: Sequence[str], numbers: Numbers) -> dict[str, Any]:
    columns, certified = (ROLLOUT_COLUMNS, False) if config == ROLLOUTS else (COLUMNS[config], True)

    def split_info(split: str) -> dict[str, Any]:
        files = f"{config}/{split}-*.parquet" if certified else f"{config}/*.parquet"
        rows = (CERTIFICATE, pointer("counts", config, split, "rows")) if certified else (files, "rows")
        return {
            "name": split,
            "num_bytes": numbers.sourced(files, "bytes"),
            "num_examples": numbers.sourced(*rows),
        }

    size = {"download_size": numbers.sourced(CERTIFICATE, f"/files?config={config}#sum:bytes")} if certified else {}
    return {
        "config_name": config,
        "features": [{"name": name, **feature(kind)} for name, kind in columns.items()],
        "splits": [split_info(split) for split in splits],
        **size,
        "dataset_size": numbers.sourced(f"{config}/*.parquet", "bytes"),
    }


def _result(params: Params, numbers: Numbers) -> dict[str, Any]:
    scores = f"scores/{released(params).name}.json"
    metrics = [
        ("asr", "Strict success rate", "/overall/asr/share"),
        ("asr-low", "Strict success rate, lower end of its 95% interval", "/overall/asr/low"),
        ("asr-high", "Strict success rate, upper end of its 95% interval", "/overall/asr/high"),
        ("asr-n", "Rollouts that count", "/overall/asr/n"),
        ("car", "Mean share of constraints that are met", "/overall/means/rule/value"),
    ]
    pool = params.split.held_out
    return {
        "task": {"type": "text-generation", "name": "Shopping with tools"},
        "dataset": {
            "type": params.release.dataset,
            "name": visible(params.release.title),
            "config": "heldout",
            "split": f"heldout_{pool.replace('-', '_')}" if pool and params.rollout.pool == "heldout" else "dev",
            "revision": tag_of(params.release.version),
        },
        "metrics": [
            {"type": kind, "name": told, "value": value}
            for kind, told, key in metrics
            if (value := numbers.sourced(scores, key)).value is not None
        ],
    }


def _yaml(tree: object) -> str:
    # Wide lines: a folded one could begin with what Markdown reads.
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=False, width=10**6))


def ordered(configs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Configs in the order of the card, those without a split left out."""
    return {config: list(configs[config]) for config in CONFIGS if configs.get(config)}
