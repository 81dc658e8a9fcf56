"""What the real clients do with a Hub, each in a process of its own: they read its address when they are imported.

`python -m tests.release.hub_scripts NAME` prints what it found as JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def life() -> dict[str, Any]:
    """A dataset repository from its creation to its end."""
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi, HfFileSystem
    from huggingface_hub.errors import HfHubHTTPError

    api, repo, kind = HfApi(), "acme/life", {"repo_type": "dataset"}
    who = api.whoami()
    said: dict[str, Any] = {"who": who["name"], "orgs": [row["name"] for row in who["orgs"]]}
    url = api.create_repo(repo, private=True, **kind)
    said["again"] = api.create_repo(repo, private=True, exist_ok=True, **kind) == url
    api.auth_check(repo, write=True, **kind)
    head, staging = api.repo_info(repo, **kind).sha, {"revision": "staging/1.0.0", **kind}
    api.create_branch(repo, branch="staging/1.0.0", **kind)
    files = {f"data/train-{n}.parquet": os.urandom(3000 + n) for n in range(3)}
    card = b"---\nlicense: mit\ntags: [agents]\n---\n# Life\n"
    files |= {"README.md": card, 'notes é "x".txt': b"", "small.json": b"{}"}
    adds = [Add(path, data) for path, data in files.items()]
    made = api.create_commit(
        repo, adds, commit_message="Release", commit_description="1.0.0", parent_commit=head, **staging
    )
    tree = {row.path: row for row in api.list_repo_tree(repo, recursive=True, expand=True, **staging)}
    said["tree"] = sorted(path for path, row in tree.items() if hasattr(row, "blob_id"))
    said["lfs"] = sorted(path for path, row in tree.items() if getattr(row, "lfs", None))
    said["titles"] = sorted({row.last_commit.title for row in tree.values()})
    said["stale"] = _status(
        HfHubHTTPError,
        lambda: api.create_commit(repo, [Add("late", b"x")], commit_message="late", parent_commit=head, **staging),
    )
    api.create_tag(repo, tag="v1.0.0", revision=made.oid, tag_message="first", **kind)
    said["tag again"] = _status(HfHubHTTPError, lambda: api.create_tag(repo, tag="v1.0.0", revision=head, **kind))
    refs = api.list_repo_refs(repo, **kind)
    said["tag"] = [row.target_commit == made.oid for row in refs.tags]
    said["branches"] = sorted(row.name for row in refs.branches)
    tagged = {"revision": "v1.0.0", **kind}
    info = api.repo_info(repo, files_metadata=True, **tagged)
    said["info"] = [info.sha == made.oid, info.private, info.card_data.license, info.tags]
    said["sizes"] = all(row.size == len(files[row.rfilename]) for row in info.siblings if row.rfilename in files)
    said["paths"] = [row.path for row in api.get_paths_info(repo, ["small.json", "absent"], expand=True, **tagged)]
    said["history"] = [row.title for row in api.list_repo_commits(repo, **tagged)]
    home = api.snapshot_download(repo, **tagged)
    said["same"] = all(Path(home, path).read_bytes() == data for path, data in files.items())
    with HfFileSystem().open(f"datasets/{repo}@v1.0.0/data/train-0.parquet", "rb") as opened:
        opened.seek(1000)
        said["ranged"] = opened.read(500) == files["data/train-0.parquet"][1000:1500]
    return said


def end() -> dict[str, Any]:
    """The rest of the life of the repository of `life`."""
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import CommitOperationDelete as Delete
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    api, repo, kind, said = HfApi(), "acme/life", {"repo_type": "dataset"}, dict[str, Any]()
    api.update_repo_settings(repo, private=False, **kind)
    said["public"] = not api.repo_info(repo, **kind).private
    changes = [Add("small.json", b"[]"), Delete("data/", is_folder=True)]
    second = api.create_commit(repo, changes, commit_message="less", revision="staging/1.0.0", **kind)
    said["after"] = sorted(api.list_repo_files(repo, revision=second.oid, **kind))
    said["kept"] = len(api.list_repo_files(repo, revision="v1.0.0", **kind))
    api.delete_branch(repo, branch="staging/1.0.0", **kind)
    api.delete_tag(repo, tag="v1.0.0", **kind)
    said["untagged"] = _status(RevisionNotFoundError, lambda: api.repo_info(repo, revision="v1.0.0", **kind))
    said["main"] = _status(HfHubHTTPError, lambda: api.delete_branch(repo, branch="main", **kind))
    api.delete_repo(repo, **kind)
    said["gone"] = _status(RepositoryNotFoundError, lambda: api.repo_info(repo, **kind))
    return said


def collection() -> dict[str, Any]:
    """A collection from its creation to its end."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api, said = HfApi(), dict[str, Any]()
    api.create_repo("acme/member", repo_type="dataset")
    made = api.create_collection("Arena 1.0.0", namespace="acme", description="both", exists_ok=True)
    said["same"] = api.create_collection("Arena 1.0.0", namespace="acme", exists_ok=True).slug == made.slug
    for _ in range(2):
        made = api.add_collection_item(made.slug, "acme/member", "dataset", note="the data", exists_ok=True)
    said["items"] = [(row.item_id, row.item_type, row.note) for row in made.items]
    api.update_collection_item(made.slug, made.items[0].item_object_id, note="new")
    said["note"] = api.get_collection(made.slug).items[0].note
    said["listed"] = [row.slug == made.slug for row in api.list_collections(owner="acme")]
    api.delete_collection_item(made.slug, made.items[0].item_object_id)
    said["title"] = api.update_collection_metadata(made.slug, title="Other").title
    said["empty"] = api.get_collection(made.slug).items == []
    api.delete_collection(made.slug)
    said["gone"] = _status(HfHubHTTPError, lambda: api.get_collection(made.slug))
    return said


def rights() -> dict[str, Any]:
    """What a token may do with `acme/hidden` and `acme/open`: None where it may, else the status."""
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api, kind, adds = HfApi(), {"repo_type": "dataset"}, [Add("x.txt", b"x")]
    asked: dict[str, Callable[[], Any]] = {
        "see": lambda: api.repo_info("acme/hidden", **kind),
        "check": lambda: api.auth_check("acme/hidden", write=True, **kind),
        "create": lambda: api.create_repo("acme/new"),
        "commit": lambda: api.create_commit("acme/open", adds, commit_message="x", **kind),
        "tag": lambda: api.create_tag("acme/open", tag="t", **kind),
        "show": lambda: api.update_repo_settings("acme/hidden", private=False, **kind),
    }
    return {name: _status(HfHubHTTPError, call) for name, call in asked.items()}


def rows() -> dict[str, Any]:
    """A dataset of two configs, loaded by tag after `main` went on."""
    from datasets import load_dataset
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi

    api, repo, kind = HfApi(), "acme/rows", {"repo_type": "dataset"}
    api.create_repo(repo, private=True, **kind)
    card = b"""---
configs:
- config_name: sft
  data_files: [{split: train, path: sft/train.parquet}]
- config_name: kto
  data_files: [{split: train, path: kto/*.parquet}]
---
"""
    files = {"README.md": card, "sft/train.parquet": _parquet([1, 2, 3])}
    files |= {"kto/a.parquet": _parquet([4]), "kto/b.parquet": _parquet([5])}
    made = api.create_commit(repo, [Add(path, data) for path, data in files.items()], commit_message="1", **kind)
    api.create_tag(repo, tag="v1.0.0", revision=made.oid, **kind)
    api.create_commit(repo, [Add("sft/train.parquet", _parquet([9]))], commit_message="2", **kind)
    streamed = load_dataset(repo, "sft", revision="v1.0.0", split="train", streaming=True)
    return {
        "sft": load_dataset(repo, "sft", revision="v1.0.0")["train"]["id"][:],
        "kto": load_dataset(repo, "kto", revision="v1.0.0")["train"]["id"][:],
        "streamed": [row["id"] for row in streamed],
        "main": load_dataset(repo, "sft")["train"]["id"][:],
    }


def weights() -> dict[str, Any]:
    """A tiny model with its tokenizer, loaded by tag."""
    import torch
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    home = Path(os.environ["HF_HOME"], "saved")
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(home)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    made = LlamaForCausalLM(LlamaConfig(vocab_size=8, **sizes))
    made.save_pretrained(home)
    api, repo = HfApi(), "acme/tiny"
    api.create_repo(repo)
    adds = [Add(saved.name, saved) for saved in home.iterdir()]
    commit = api.create_commit(repo, adds, commit_message="weights")
    api.create_tag(repo, tag="v1.0.0", revision=commit.oid)
    loaded = AutoModelForCausalLM.from_pretrained(repo, revision="v1.0.0").state_dict()
    same = all(torch.equal(loaded[name], value) for name, value in made.state_dict().items())
    return {"same": same, "ids": AutoTokenizer.from_pretrained(repo, revision="v1.0.0")("a b c")["input_ids"]}


def parts() -> dict[str, Any]:
    """A file that is uploaded in parts."""
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi

    api, repo, data = HfApi(), "acme/parts", os.urandom(2_600_000)
    api.create_repo(repo)
    api.create_commit(repo, [Add("large.bin", data)], commit_message="parts")
    return {"same": Path(api.hf_hub_download(repo, "large.bin")).read_bytes() == data}


def many() -> dict[str, Any]:
    """A commit of more files than a page of the tree holds."""
    from huggingface_hub import CommitOperationAdd as Add
    from huggingface_hub import HfApi

    api, repo, kind = HfApi(), "acme/many", {"repo_type": "dataset"}
    api.create_repo(repo, **kind)
    api.create_commit(repo, [Add(f"f/{n:05}.txt", b"x") for n in range(2100)], commit_message="many", **kind)
    tree = list(api.list_repo_tree(repo, recursive=True, **kind))
    return {"entries": len(tree), "commits": len(api.list_repo_commits(repo, **kind))}


def _status(kind: type[Exception], call: Callable[[], Any]) -> int | None:
    try:
        call()
    except kind as error:
        return int(error.response.status_code)  # type: ignore[attr-defined]
    return None


def _parquet(ids: list[int]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    held = io.BytesIO()
    pq.write_table(pa.table({"id": ids, "text": [f"row {n}" for n in ids]}), held)
    return held.getvalue()


if __name__ == "__main__":
    scripts = {call.__name__: call for call in (life, end, collection, rights, rows, weights, parts, many)}
    print(json.dumps(scripts[sys.argv[1]]()))
