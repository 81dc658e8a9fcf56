"""Stage validate: what a sound corpus gives, and that whatever is broken stops the pipeline and says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oresmith.errors import OresmithError
from oresmith.params import check_params
from stages import validate
from tests.pipeline.project import Project
from tests.validation.build import KEYS, certify, copied, edit_rows, only_file, resign


@pytest.fixture(scope="module")
def valid(corpus_project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy on which the stage has run, as a process."""
    project = copied(corpus_project, tmp_path_factory.mktemp("valid"))
    done = project.stage("validate")
    assert done.returncode == 0, done.stderr
    assert "88 lines accounted for" in done.stdout
    return project


def read(project: Project, name: str) -> Any:
    return json.loads((project.root / "data/validate" / name).read_bytes())


def test_the_funnel_accounts_for_every_line_of_every_file(valid: Project) -> None:
    funnel = read(valid, "funnel.json")
    for one in [funnel, *funnel["files"]]:
        placed = one["trajectories"] + one["subtask"] + sum(one["withheld"].values()) + sum(one["rejects"].values())
        assert one["read"] == placed
    assert funnel["read"] == sum(file["read"] for file in funnel["files"]) == 88
    assert {file["file"] for file in funnel["files"]} == normalized_files(valid)


def normalized_files(project: Project) -> set[str]:
    report = json.loads((project.root / "data/normalize/demo/report.json").read_bytes())
    return {file["file"] for file in report["files"]}


def test_every_config_has_a_contract_with_a_version_and_its_rows(valid: Project) -> None:
    told = read(valid, "validation.json")
    rows = {(one["config"], one["split"]): one["rows"] for one in told["configs"]}
    checked = {one["of"]: one["rows"] for one in told["contracts"] if one["name"] == f"oresmith.check.{one['of']}/1"}
    assert told["valid"]
    assert checked.keys() == {"trajectories", "sft", "kto", "grpo", "subtask", "heldout", "heldout_gold", "rejects"}
    for config, count in checked.items():
        assert count == sum(number for (name, _), number in rows.items() if name == config)
    assert all(one["name"].rpartition("/")[2].isdigit() for one in told["contracts"])


def test_counts_of_rows_problems_and_clusters_stand_side_by_side(valid: Project) -> None:
    shapes = {(one["config"], one["split"]): one for one in read(valid, "validation.json")["configs"]}
    own = json.loads((valid.root / "data/corpus/corpus.json").read_bytes())["configs"]
    columns = ("rows", "problems", "clusters", "files", "bytes")
    for (config, split), shape in shapes.items():
        assert {key: shape[key] for key in columns} == {key: own[config][split][key] for key in columns}
    assert len(shapes) == sum(map(len, own.values()))


def test_the_report_shows_the_result_that_is_kept(valid: Project) -> None:
    html = (valid.root / "data/validate/report.html").read_text()
    result = read(valid, "gx/result.json")
    assert result["success"]
    for suite in result["suites"]:
        assert f"{suite['config']}: {suite['statistics']['evaluated_expectations']} of" in html
    assert "88 lines of traces were read" in html


def test_the_same_corpus_gives_the_same_bytes(valid: Project, tmp_path: Path) -> None:
    other = copied(valid, tmp_path)
    done = other.stage("validate", PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    for folder in ("data/validate", "metrics", "plots"):
        assert other.tree(folder) == valid.tree(folder)


def test_what_differs_between_runs_stands_beside(valid: Project) -> None:
    observed = json.loads((valid.root / "data/observed/validate-gx.json").read_bytes())
    assert {"run_id", "validation_time"} <= observed["sft"].keys()
    assert not list((valid.root / "data").glob(".validate.scratch"))


def test_plots_and_metrics_are_the_figures_of_the_report(valid: Project) -> None:
    metrics = json.loads((valid.root / "metrics/validate.json").read_bytes())
    places = dict(line.split(",") for line in (valid.root / "plots/corpus_funnel.csv").read_text().split())
    assert places.pop("place") == "count"
    assert sum(map(int, places.values())) == metrics["read"] == 88
    tokens = (valid.root / "plots/tokens.csv").read_text().split("\n")[1:-1]
    assert sum(int(line.rsplit(",", 1)[1]) for line in tokens) == metrics["trajectories"]


def test_an_earlier_release_decides_the_least_version(
    corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = copied(corpus_project, tmp_path)
    keys = (project.root / "data/audit/certificate/keys.tsv").read_text().splitlines()
    earlier = project.root / "releases/0.0.9/certificate"
    earlier.mkdir(parents=True)
    (earlier / "keys.tsv").write_text("\n".join(keys[:-1]) + "\n")
    (earlier / "certificate.json").write_text(json.dumps({"release": "0.0.9", "files": []}))
    in_process(project, monkeypatch)
    version = read(project, "validation.json")["version"]
    assert (version["previous"], version["least"], version["changes"]["added"]) == ("0.0.9", "0.1.0", 1)


Rows = list[dict[str, Any]]


def edits(config: str, split: str, change: Callable[[Rows], Rows]) -> Callable[[Project], None]:
    return lambda project: edit_rows(only_file(project, config, split), change)


def on_last(**values: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows[:-1], rows[-1] | values]


def invented_null(rows: Rows) -> Rows:
    """What a struct type would do to the arguments of calls."""

    def with_null(text: str) -> str:
        message = json.loads(text)
        for call in message.get("tool_calls", []):
            arguments = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = json.dumps(arguments | {"shop_id": None})
        return json.dumps(message)

    return [*rows[:-1], rows[-1] | {"messages": [with_null(text) for text in rows[-1]["messages"]]}]


def on_table(name: str, *changes: pl.Expr) -> Callable[[Project], None]:
    def change(project: Project) -> None:
        (path,) = (project.root / "data").glob(name)
        pl.read_parquet(path).with_columns(*changes).write_parquet(path)

    return change


def move_split(project: Project) -> None:
    path = only_file(project, "trajectories", "train")
    path.rename(path.with_name(path.name.replace("train-", "dev-").replace("00000.parquet", "00001.parquet")))


def hide_everywhere(project: Project) -> None:
    for config, split in (("trajectories", "dev"), ("sft", "validation"), ("kto", "validation")):
        edit_rows(only_file(project, config, split), lambda rows: rows[:-1])


def reward_in_heldout(project: Project) -> None:
    path = only_file(project, "heldout", "heldout_2026_05_02")
    gold = only_file(project, "heldout_gold", "heldout_2026_05_02")
    path.write_bytes(gold.read_bytes())


def undesirable_of_another_reason(project: Project) -> None:
    rejected = pl.read_parquet(only_file(project, "rejects", "*"), columns=["reason", "trajectory_id"])
    other = rejected.filter(pl.col("reason") == "reasoning")["trajectory_id"][0]
    edit_rows(
        only_file(project, "kto", "train"),
        lambda rows: [row if row["label"] else row | {"row_id": other} for row in rows],
    )


def secret_in_published(project: Project) -> None:
    shown = pl.read_parquet(only_file(project, "trajectories", "dev"), columns=["row_id"])["row_id"][0]
    found = pl.when(pl.col("trajectory_id") == shown).then(pl.lit(["openai"])).otherwise("secret_types")
    on_table("evidence/demo/table/*.parquet", found.alias("secret_types"))(project)


def certificate_of_less(project: Project) -> None:
    path = project.root / "data/audit/certificate/keys.tsv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")


def withheld_less(project: Project) -> None:
    path = project.root / "data/corpus/report.json"
    report = json.loads(path.read_bytes())
    next(fate for fate in report["fates"] if fate["withheld"])["withheld"].popitem()
    path.write_text(json.dumps(report))


def stray(name: str) -> Callable[[Project], None]:
    return lambda project: (project.root / "data/corpus" / name).write_text("x") and None


def no_card(project: Project) -> None:
    readme = project.root / "data/corpus/README.md"
    readme.write_text(readme.read_text().replace("validation-*", "train-*"))


BREAKS: dict[str, tuple[Callable[[Project], None], str]] = {
    "a null argument is invented": (edits("trajectories", "train", invented_null), "(?s)sft.*views|messages:"),
    "one in dev, which no view would show": (edits("trajectories", "dev", invented_null), "views"),
    "a row stands in another split": (move_split, "stands where its problem's pool says"),
    "a row states another pool": (
        edits("trajectories", "train", on_last(pool="dev")),
        "`pool` is what stage split says",
    ),
    "a row states another cluster": (edits("grpo", "train", on_last(cluster="0" * 64)), "problem's pool says"),
    "a row stands twice": (edits("trajectories", "train", lambda rows: [*rows, rows[-1]]), "unique_ids"),
    "a rank is given twice": (
        edits("trajectories", "train", lambda rows: [row | {"problem": rows[0]["problem"], "rank": 1} for row in rows]),
        "unique_ranks",
    ),
    "a view holds another dialogue": (
        edits("sft", "train", lambda rows: [*rows[:-1], rows[-1] | {"messages": rows[0]["messages"]}]),
        "message for message",
    ),
    "a view lacks a row": (edits("sft", "train", lambda rows: rows[1:]), "are the same"),
    "a reject is hidden": (edits("rejects", "*", lambda rows: rows[1:]), "rejected rows have vanished"),
    "a trajectory is hidden, in all configs": (hide_everywhere, "accepted rows have vanished"),
    "a reward stands in heldout": (reward_in_heldout, "another schema than its config"),
    "an undesirable row was rejected for another reason": (undesirable_of_another_reason, "undesirable"),
    "a desirable row is called undesirable": (edits("kto", "train", on_last(label=False)), "are the same|undesirable"),
    "evidence was touched up": (edits("trajectories", "dev", on_last(scorer="better/9")), "as it was computed"),
    "a secret was found in a published row": (secret_in_published, "no secret was found"),
    "the certificate lacks a row": (certificate_of_less, "other rows than the corpus"),
    "withheld rows are not counted": (withheld_less, "not what stage corpus states"),
    "a stray file": (stray("notes.txt"), "no part of a corpus"),
    "a file outside every config": (stray("sft/extra.jsonl"), "no part of a corpus"),
    "a damaged file": (
        lambda project: only_file(project, "sft", "train").write_bytes(b"PAR1 nothing") and None,
        "cannot be read",
    ),
    "a card that names no split": (no_card, "other splits|does not load"),
    "an allowed row that is not flagged": (
        on_table("split/assignments.parquet", pl.lit(["suite"]).alias("benchmarks")),
        "only_open_pools_train",
    ),
    "decisions of other rows": (
        on_table("cluster/attempts.parquet", (pl.col("line") + 1000).alias("line")),
        "are of different rows",
    ),
}


def in_process(project: Project, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.chdir(project.root)
    validate.run(check_params(project.params | changes, "params.yaml"))


@pytest.mark.parametrize("name", BREAKS)
def test_whatever_is_broken_stops_the_stage(
    name: str, corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message = BREAKS[name]
    project = copied(corpus_project, tmp_path)
    change(project)
    resign(tmp_path)
    if name not in ("the certificate lacks a row", "a damaged file"):
        certify(tmp_path)
    with pytest.raises(OresmithError, match=message):
        in_process(project, monkeypatch)
    assert not (tmp_path / "data/validate").exists()
    assert not (tmp_path / "metrics/validate.json").exists()


def test_a_failed_expectation_stops_the_stage_and_its_result_is_kept(
    corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = copied(corpus_project, tmp_path)
    with pytest.raises(OresmithError, match=r"trajectories\.tokens: tokens within the gate's limit"):
        in_process(project, monkeypatch, gate={"max_tokens": 10})
    kept = json.loads((tmp_path / "data/.validate.scratch/result.json").read_bytes())
    assert not kept["success"]
    assert not (tmp_path / "data/validate").exists()


@pytest.mark.parametrize("cap", ["cap_per_problem", "cap_per_cluster"])
def test_rows_over_a_cap_stop_the_stage(
    cap: str, corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OresmithError, match=f"{cap}: at most 1 rows"):
        in_process(copied(corpus_project, tmp_path), monkeypatch, corpus={cap: 1})


def test_a_row_group_beyond_the_viewers_limit_stops_the_stage(
    corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oresmith.validation.layout.ROW_GROUP_LIMIT", 1000)
    with pytest.raises(OresmithError, match="too large for the Hub's viewer"):
        in_process(copied(corpus_project, tmp_path), monkeypatch)


def test_too_many_files_stop_the_stage(
    corpus_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oresmith.validation.layout.FOLDER_LIMIT", 2)
    with pytest.raises(OresmithError, match="too many files in one folder"):
        in_process(copied(corpus_project, tmp_path), monkeypatch)


def test_without_a_corpus_the_stage_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    project.add_snapshot("demo")
    with pytest.raises(OresmithError, match="run the stage that writes it"):
        in_process(project, monkeypatch)


def test_the_keys_of_the_certificate_are_those_that_the_comparison_reads() -> None:
    from oresmith.audit.keys_table import KeysRow

    assert set(KEYS) - {"problem"} <= set(KeysRow._fields)
    assert {"config", "row_id", "pool", "row_sha256", "shard"} <= set(KeysRow._fields)
