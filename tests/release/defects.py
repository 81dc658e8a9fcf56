"""What went wrong in the published release (../shared/domain/sn15.md, section 8), planted one by one in a small bundle.

Each plant edits a bundle of `verify_world` in place and mends its lists and hashes, so that it is found for what it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from oresmith.release.layout import ROLLOUTS
from oresmith.release.products import FOLDER
from tests.release.verify_world import Rows, edit, edit_json, first, mended, public_queries


class Defect(NamedTuple):
    """One of them."""

    number: int
    """In section 8."""
    name: str
    plant: Callable[[Path], None]
    check: str
    """The check of `verify` that must fail."""
    says: str
    """Part of what it must say."""

    def planted(self, bundle: Path) -> Path:
        """The bundle with the defect, as its publisher would list and hash it."""
        self.plant(bundle)
        return mended(bundle, certificate=True)


def _rewritten(bundle: Path, query: str) -> None:
    """One more training row, which asks this in another spelling."""

    def change(rows: Rows) -> Rows:
        told = {"row_id": "f" * 64, "query": f" {query.upper()}\n", "line": 9_999}
        return [*rows, rows[0] | told]

    edit(first(bundle, "trajectories", "train"), change)


def _gold(bundle: Path) -> dict[str, Any]:
    row = pq.read_table(first(bundle, "heldout_gold")).to_pylist()[0]
    reward = json.loads(row["reward"])
    return row | {"gold": (reward[0] if isinstance(reward, list) else reward)["product_id"]}


def trains_on_a_public_test_problem(bundle: Path) -> None:
    _rewritten(bundle, public_queries()[0])


def trains_on_a_heldout_problem(bundle: Path) -> None:
    _rewritten(bundle, _gold(bundle)["query"])


def recommends_a_heldout_gold(bundle: Path) -> None:
    def change(rows: Rows) -> Rows:
        ids = json.dumps({"product_ids": _gold(bundle)["gold"]})
        messages = [json.loads(text) for text in rows[0]["messages"]]
        for message in messages:
            for call in message.get("tool_calls", []):
                if call["function"]["name"] == "recommend_product":
                    call["function"]["arguments"] = ids
        return [rows[0] | {"messages": [json.dumps(message) for message in messages]}, *rows[1:]]

    edit(first(bundle, "trajectories", "train"), change)


def shares_a_gold_across_categories(bundle: Path) -> None:
    def change(rows: Rows) -> Rows:
        reward = json.dumps(
            [{"product_id": _gold(bundle)["gold"], "title": ["x"]}, {"product_id": "1", "title": ["y"]}]
        )
        told = {"problem": "e" * 64, "query": "two other things of one shop", "category": "shop", "voucher": None}
        return [*rows, rows[0] | told | {"cluster": "e" * 64, "reward": reward}]

    edit(first(bundle, "grpo"), change)


def splits_a_cluster(bundle: Path) -> None:
    cluster = pq.read_table(first(bundle, "trajectories", "dev"))["cluster"][0].as_py()
    edit(first(bundle, "trajectories", "train"), lambda rows: [rows[0] | {"cluster": cluster}, *rows[1:]])


def holds_one_problem_twice(bundle: Path) -> None:
    def change(rows: Rows) -> Rows:
        return [*rows, rows[0] | {"problem": "d" * 64, "problem_id": "again", "query": rows[0]["query"] + " \n"}]

    for config in ("heldout", "heldout_gold"):
        edit(first(bundle, config), change)


def loses_98_lines(bundle: Path) -> None:
    def change(funnel: Any) -> None:
        funnel["read"] += 98
        funnel["files"][0]["read"] += 98

    edit_json(bundle / "dataset/funnel.json", change)


def hides_a_reject(bundle: Path) -> None:
    edit(first(bundle, "rejects"), lambda rows: rows[1:])


def tells_no_funnel(bundle: Path) -> None:
    (bundle / "dataset/funnel.json").unlink()


def _scores(bundle: Path, change: Callable[[Any], None], name: str = "first") -> None:
    for part in ("dataset", "model"):
        edit_json(bundle / part / f"scores/{name}.json", change)


def gives_no_interval(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores["overall"]["asr"].update(low=None, high=None))


def leaves_the_interval_out(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores["overall"]["asr"].pop("low"))


def compares_with_another_scorer(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores["conditions"].update(scorer="oro/0.5"))


def compares_other_prompts(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores["conditions"]["prompt"].update(id="other-1", sha256="0" * 64))


def counts_part_of_the_pool(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores.update(left_out={"limit": 5}))


def _tools(bundle: Path, change: Callable[[Any], Any], config: str = "sft") -> None:
    def changed(rows: Rows) -> Rows:
        return [row | {"tools": json.dumps(change(json.loads(row["tools"])))} for row in rows]

    edit(first(bundle, config, "train"), changed)


def writes_flat_tools(bundle: Path) -> None:
    _tools(bundle, lambda tools: [{"type": "function", **tool["function"]} for tool in tools])


def _properties(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], Any]:
    def changed(tools: Any) -> Any:
        for tool in tools:
            change(tool["function"]["parameters"])
        return tools

    return changed


def defines_ids_as_an_array(bundle: Path) -> None:
    def change(parameters: dict[str, Any]) -> None:
        if "product_ids" in parameters["properties"]:
            parameters["properties"]["product_ids"] = {"type": "array", "items": {"type": "string"}}

    _tools(bundle, _properties(change))


def defines_query_and_calls_q(bundle: Path) -> None:
    def change(parameters: dict[str, Any]) -> None:
        if "q" in parameters["properties"]:
            parameters["properties"]["query"] = parameters["properties"].pop("q")
            parameters["required"] = ["query"]

    _tools(bundle, _properties(change), "kto")


def requires_nothing(bundle: Path) -> None:
    _tools(bundle, _properties(lambda parameters: parameters.pop("required")))


def defines_no_such_tool(bundle: Path) -> None:
    _tools(bundle, lambda tools: [tool for tool in tools if tool["function"]["name"] != "terminate"], "trajectories")


def overwrites_the_system_prompt(bundle: Path) -> None:
    prompt = json.dumps({"role": "system", "content": "Mind the private rewards and the split metadata."})

    def change(rows: Rows) -> Rows:
        return [row | {"messages": [prompt, *row["messages"]], "system_prompt": "none_logged"} for row in rows]

    edit(first(bundle, "trajectories", "train"), change)


def has_no_version(bundle: Path) -> None:
    for part in ("dataset", "model"):
        (bundle / part / "release.json").unlink()


def _dropped(bundle: Path, *columns: str) -> None:
    for split in ("train", "dev"):
        path = first(bundle, "trajectories", split)
        pq.write_table(pq.read_table(path).drop_columns(list(columns)), path)


def has_no_provenance_columns(bundle: Path) -> None:
    _dropped(bundle, "agent_version", "validator", "race_id", "scorer")


def has_no_outcomes(bundle: Path) -> None:
    _dropped(bundle, "outcome", "judge_quality", "judge_status")


def names_no_agent(bundle: Path) -> None:
    names = ("agent_version", "run_id", "validator", "race_id")
    for split in ("train", "dev"):
        edit(first(bundle, "trajectories", split), lambda rows: [row | dict.fromkeys(names) for row in rows])


def publishes_no_rejects(bundle: Path) -> None:
    shutil.rmtree(bundle / "dataset/rejects")


def publishes_no_rollouts(bundle: Path) -> None:
    shutil.rmtree(bundle / "dataset" / ROLLOUTS)


def publishes_no_products(bundle: Path) -> None:
    shutil.rmtree(bundle / "dataset" / FOLDER)


def claims_a_success(bundle: Path) -> None:
    _scores(bundle, lambda scores: scores["overall"]["asr"].update(k=5, share=0.625))


DEFECTS = (
    Defect(
        1, "a public test problem is trained on", trains_on_a_public_test_problem, "disjoint", "benchmark:public-suite"
    ),
    Defect(1, "a held-out problem is trained on", trains_on_a_heldout_problem, "disjoint", "shares query"),
    Defect(1, "a row recommends a held-out gold", recommends_a_heldout_gold, "disjoint", "a gold product of heldout@"),
    Defect(2, "a gold is shared across categories", shares_a_gold_across_categories, "disjoint", "shares gold"),
    Defect(2, "a cluster is split", splits_a_cluster, "disjoint", "is in train and in dev"),
    Defect(3, "one problem stands twice", holds_one_problem_twice, "disjoint", "is the same problem as"),
    Defect(4, "98 lines are unexplained", loses_98_lines, "funnel", "does not add up"),
    Defect(4, "a reject is hidden", hides_a_reject, "funnel", "by the funnel"),
    Defect(4, "there is no funnel", tells_no_funnel, "funnel", "what was read"),
    Defect(5, "a rate has no interval", gives_no_interval, "scores", "no interval"),
    Defect(5, "the interval is left out", leaves_the_interval_out, "scores", "without its interval"),
    Defect(5, "the baseline has another scorer", compares_with_another_scorer, "scores", "scorer: oro/0.5"),
    Defect(5, "the baseline has another prompt", compares_other_prompts, "scores", "prompt: other-1"),
    Defect(5, "another mix of problems", counts_part_of_the_pool, "scores", "of a pool of"),
    Defect(6, "tools are flat", writes_flat_tools, "tools", "flat"),
    Defect(6, "ids are an array here, text there", defines_ids_as_an_array, "tools", "its definition says array"),
    Defect(6, "query here, q there", defines_query_and_calls_q, "tools", "called with q"),
    Defect(6, "nothing is required", requires_nothing, "tools", "requires anything"),
    Defect(6, "other tools than the calls'", defines_no_such_tool, "tools", "do not define"),
    Defect(6, "system prompts are overwritten", overwrites_the_system_prompt, "tools", "its messages say otherwise"),
    Defect(7, "no version", has_no_version, "hashes", "no version"),
    Defect(7, "no provenance of a row", has_no_provenance_columns, "contracts", "agent_version, validator, race_id"),
    Defect(7, "no outcome and judge of a row", has_no_outcomes, "contracts", "lacks outcome"),
    Defect(7, "no row names its agent", names_no_agent, "provenance", "no provenance"),
    Defect(7, "rejects are not published", publishes_no_rejects, "contracts", "no such config"),
    Defect(8, "rollouts are not published", publishes_no_rollouts, "scores", "rollouts are not published"),
    Defect(8, "products are not published", publishes_no_products, "scores", "products of a shop are not published"),
    Defect(8, "a score is not what the rollouts give", claims_a_success, "scores", "overall.asr.k"),
)
