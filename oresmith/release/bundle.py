"""The bundle: the two repositories of a release as folders, byte by byte, and the manifest of both.

    dataset/  model/  release.json

Everything is copied (blocks are shared where the file system can): a hard link would tie the bundle to files that DVC
replaces, protects and links to its cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.release.codetree import code_tree
from oresmith.release.columns import encode_columns, read_columns
from oresmith.release.contents import Wanted, dataset_files, model_files, public_params
from oresmith.release.gates import Given, run_gates
from oresmith.release.layout import DATASET, MODEL, PARTS, RELEASE_FILE, SIGNATURE_FILE, safe_path
from oresmith.release.manifest import (
    Counterpart,
    File,
    GateResult,
    Part,
    PartRelease,
    Release,
    Waived,
    content_sha256,
    describe,
    encode,
    list_files,
    release_sha256,
)
from oresmith.release.versions import previous_of
from oresmith.stage import DATA


def make_bundle(
    params: Params, out: Path, root: Path = Path(), *, catalogue_of: Callable[[str], Path] | None = None
) -> Release:
    """Put a bundle together and try the gates that need no git; one that fails is written down and stops nothing.

    Args:
        params: of the project.
        out: an empty folder that takes `dataset/`, `model/` and `release.json`.
        root: of the project, all of whose stages before this one are done.
        catalogue_of: the product documents of a snapshot, so that the products that scores depend on are published;
            None leaves them out.

    Raises:
        OresmithError: an input is missing, or a name that no release has.
    """
    wanted = {MODEL: model_files(params, root), DATASET: dataset_files(params, root)}
    for kind in PARTS:
        _copy_all(wanted[kind], root, out / kind)
    if catalogue_of is not None:
        _products(params, out / DATASET, root, catalogue_of)
    _write(out / DATASET / "params.yaml", _yaml(public_params(params)))
    _write(out / DATASET / "schemas/columns.json", encode_columns(read_columns(out / DATASET)))
    listed = {kind: list_files(out / kind) for kind in PARTS}
    gates = run_gates(Given(params=params, root=root, dataset=out / DATASET, model=out / MODEL, cutting=False))
    previous = previous_of(root, params)
    return write_manifests(out, params, dataset=listed[DATASET], model=listed[MODEL], gates=gates, previous=previous)


def write_manifests(
    out: Path,
    params: Params,
    *,
    dataset: tuple[File, ...],
    model: tuple[File, ...],
    gates: tuple[GateResult, ...],
    previous: str | None,
) -> Release:
    """Write the three `release.json`.

    Args:
        out: folder of the bundle.
        params: version, repositories and waivers.
        dataset: files of the dataset, as all below without `release.json`.
        model: files of the model.
        gates: what they found.
        previous: newest earlier release.
    """
    stated = params.release
    repositories = {DATASET: stated.dataset, MODEL: stated.weights}
    files = {DATASET: dataset, MODEL: model}
    whole = release_sha256(dataset, model)
    tree = code_tree()
    waivers = tuple(Waived(gate=one.gate, who=one.who, why=one.why) for one in stated.waivers)
    parts = {}
    for kind, other in ((DATASET, MODEL), (MODEL, DATASET)):
        record = PartRelease(
            kind="dataset" if kind == DATASET else "model",
            version=stated.version,
            repository=repositories[kind],
            files=files[kind],
            content_sha256=content_sha256(files[kind]),
            release_sha256=whole,
            code_tree=tree,
            previous=previous,
            waivers=waivers,
            gates=gates,
            counterpart=Counterpart(
                kind="dataset" if other == DATASET else "model",
                repository=repositories[other],
                version=stated.version,
                content_sha256=content_sha256(files[other]),
            ),
        )
        path = out / kind / RELEASE_FILE
        _write(path, encode(record))
        entries = sorted([*files[kind], describe(path, RELEASE_FILE)], key=lambda file: file.path.encode())
        parts[kind] = Part(repository=repositories[kind], files=tuple(entries))
    release = Release(
        version=stated.version,
        dataset=parts[DATASET],
        model=parts[MODEL],
        content_sha256=whole,
        code_tree=tree,
        previous=previous,
        waivers=waivers,
        gates=gates,
    )
    _write(out / RELEASE_FILE, encode(release))
    return release


def check_bundle(bundle: Path, release: Release) -> None:
    """Hold every file of a bundle against its manifest.

    Raises:
        OresmithError: a file is missing, changed or not listed, naming it.
    """
    for kind in PARTS:
        stated = {file.path: file for file in release.part(kind).files}
        found = {file.path: file for file in list_files(bundle / kind) if file.path != SIGNATURE_FILE}
        for path in sorted(stated.keys() | found.keys()):
            if stated.get(path) != found.get(path):
                fault = "is missing" if path not in found else "is not listed" if path not in stated else "has changed"
                raise OresmithError(
                    f"a file of the bundle {fault}",
                    where=str(bundle / kind / path),
                    todo="run `dvc repro`, which makes the bundle again",
                )


def _copy_all(wanted: Iterable[Wanted], root: Path, out: Path) -> None:
    taken: set[str] = set()
    for file in wanted:
        if not safe_path(file.path) or file.path.lower() in taken:
            raise OresmithError("a name that no release has, or one twice", where=str(out), got=repr(file.path)[:300])
        taken.add(file.path.lower())
        target = out / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(root / file.source, target)


def copy_file(source: Path, target: Path) -> None:
    """Copy the content alone: a file of its own that may be read and written, whatever DVC made of the source."""
    with source.open("rb") as reader, target.open("xb") as writer:
        left = os.fstat(reader.fileno()).st_size
        try:
            while left > 0:
                done = os.copy_file_range(reader.fileno(), writer.fileno(), left)
                if not done:
                    break
                left -= done
        except OSError:  # across file systems, or one that cannot
            reader.seek(0)
            writer.seek(0)
            writer.truncate()
            shutil.copyfileobj(reader, writer, 1 << 20)
    target.chmod(0o644)


def _products(params: Params, dataset: Path, root: Path, catalogue_of: Callable[[str], Path]) -> None:
    from oresmith.evaluation.suite import cases_of_table
    from oresmith.release.products import write_products

    table = root / DATA / "cluster/problems.parquet"
    folders = [root / DATA / "rollout" / model.name for model in params.models]
    write_products(folders, lambda names: cases_of_table(table, names)[0], catalogue_of, dataset)


def _yaml(values: object) -> bytes:
    import yaml

    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)).encode()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def report(release: Release) -> str:
    """Two lines on a bundle."""
    counts = [
        f"{len(part.files)} files, {sum(file.bytes for file in part.files) / 1e6:.1f} MB"
        for part in (release.dataset, release.model)
    ]
    failed = [gate.name for gate in release.gates if gate.state == "failed"]
    told = f"gates that would stop it: {', '.join(failed)}" if failed else "no gate would stop it"
    return (
        f"bundle {release.version}: dataset {counts[0]}; model {counts[1]}\n  {told}; content {release.content_sha256}"
    )
