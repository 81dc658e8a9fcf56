"""croissant.json: the dataset in Croissant's vocabulary, with every file by its hash and every column by its type.

`mlcroissant` makes and checks it. https://docs.mlcommons.org/croissant/docs/croissant-spec.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.release.cards.escape import visible
from oresmith.release.cards.sources import tag_of
from oresmith.release.layout import ROLLOUTS
from schemas.corpus import CONFIGS as COLUMNS
from schemas.rollouts import COLUMNS as ROLLOUT_COLUMNS

if TYPE_CHECKING:
    import mlcroissant as mlc

PARQUET = "application/x-parquet"


def croissant(
    params: Params, configs: Mapping[str, Sequence[str]], files: Sequence[Mapping[str, Any]], licences: Sequence[str]
) -> dict[str, Any]:
    """The document.

    Args:
        params: for names, version, licence and languages.
        configs: config -> its splits.
        files: `path, bytes, sha256` of each Parquet file of the corpus.
        licences: of the rows.

    Raises:
        OresmithError: mlcroissant is not installed, or finds a fault.
    """
    try:
        import mlcroissant as mlc
    except ImportError as error:
        raise OresmithError("croissant.json needs mlcroissant", todo="pip install 'oresmith[data]'") from error
    release, context = params.release, mlc.Context()
    url = f"https://huggingface.co/datasets/{release.dataset}"
    try:
        metadata = mlc.Metadata(
            ctx=context,
            name=release.dataset.partition("/")[2],
            description=visible(release.summary, 2000),
            cite_as=f"{visible(release.title)}, version {release.version}. {url}/tree/{tag_of(release.version)}",
            license=[release.licence, *licences],
            in_language=list(release.languages),
            keywords=list(release.tags),
            url=f"{url}/tree/{tag_of(release.version)}",
            version=release.version,
            distribution=[*(_file(context, file) for file in files), *(_set(context, config) for config in configs)],
            record_sets=[_records(context, config) for config in configs],
        )
    except mlc.ValidationError as error:
        raise OresmithError("croissant.json is not valid", where="mlcroissant", got=str(error)[:400]) from error
    if metadata.ctx.issues.errors:
        raise OresmithError("croissant.json is not valid", got=metadata.ctx.issues.report()[:400])
    found: dict[str, Any] = metadata.to_json()
    return found


def _file(context: mlc.Context, file: Mapping[str, Any]) -> mlc.FileObject:
    import mlcroissant as mlc

    return mlc.FileObject(
        ctx=context,
        id=file["path"],
        name=file["path"],
        content_url=file["path"],
        content_size=f"{file['bytes']} B",
        encoding_formats=[PARQUET],
        sha256=file["sha256"],
    )


def _set(context: mlc.Context, config: str) -> mlc.FileSet:
    import mlcroissant as mlc

    return mlc.FileSet(
        ctx=context,
        id=f"{config}-files",
        name=f"{config}-files",
        encoding_formats=[PARQUET],
        includes=[f"{config}/*.parquet"],
    )


def _records(context: mlc.Context, config: str) -> mlc.RecordSet:
    import mlcroissant as mlc

    columns = ROLLOUT_COLUMNS if config == ROLLOUTS else COLUMNS[config]
    fields = [_field(context, config, name, kind) for name, kind in columns.items()]
    return mlc.RecordSet(ctx=context, id=config, name=config, fields=fields)


def _field(context: mlc.Context, config: str, name: str, kind: pa.DataType) -> mlc.Field:
    import mlcroissant as mlc

    many = pa.types.is_list(kind)
    return mlc.Field(
        ctx=context,
        id=f"{config}/{name}",
        name=name,
        data_types=[_type(kind.value_type if many else kind)],
        is_array=True if many else None,
        array_shape="-1" if many else None,
        source=mlc.Source(ctx=context, file_set=f"{config}-files", extract=mlc.Extract(ctx=context, column=name)),
    )


def _type(kind: pa.DataType) -> str:
    """JSON objects are text: Croissant has no type for them."""
    import mlcroissant as mlc

    found = mlc.DataType.TEXT
    if pa.types.is_boolean(kind):
        found = mlc.DataType.BOOL
    elif pa.types.is_integer(kind):
        found = mlc.DataType.INTEGER
    elif pa.types.is_floating(kind):
        found = mlc.DataType.FLOAT
    return str(found)
