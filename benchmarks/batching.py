"""Trajectories an hour on one core: sixteen conversations at the same time against one at a time, with the same model.

The embedded model plays arena problems. It has not been trained, so that left alone it calls no tool and every episode
is over after one turn; so it is measured twice: as it is, and led. Led, every pass is computed as it would be, but the
tokens that are taken are those of the expert's reply, as if the model had been trained on it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Section, Settings, SkippedError, in_fresh_process, verdict

BATCH = 16
TARGET = 2.5
PRODUCTS = 2_000
WAYS = {"as it is": ("batched", "one at a time", "plain transformers"), "led": ("batched", "one at a time")}
"""Who is measured how. Plain transformers read everything anew in each turn, for which led takes too long."""
MOST = {"as it is": 128, "led": 512}
"""Tokens of a turn. Led ends them where the expert does, after 214 on average."""
TURNS = 4
"""Most turns, so that few trajectories and many are alike on average."""
TRAJECTORIES = {"batched": BATCH, "one at a time": 3, "plain transformers": 3}
"""Of each; those that play one at a time would take too long for all."""


def bench(settings: Settings) -> Section:
    """The table of `make bench`."""
    section = Section(
        f"Rollouts on one core: {BATCH} conversations at a time against one",
        (
            "engine",
            "trajectories an hour",
            "turns",
            "prompt tokens",
            "of them read",
            "written",
            "CPU for prompts",
            "ratio",
        ),
    )
    for way, contenders in WAYS.items():
        found = {
            name: in_fresh_process("benchmarks.batching:measured", str(settings.home), way, name, ready="time")[
                "result"
            ]
            for name in contenders
        }
        alone = max(one["per_hour"] for name, one in found.items() if name != "batched")
        for name, one in found.items():
            ratio = one["per_hour"] / alone
            target = verdict(ratio, TARGET) if name == "batched" else ""
            section.rows.append((f"{name}, {way}", *_shown(one), f"{ratio:.2f} {target}"))
            section.numbers[f"{name}, {way}"] = {key: value for key, value in one.items() if key != "replies"}
        if way != "led":  # led replies are the same by their making
            section.notes += [f"{way}: {line}" for line in _differing(found)]
    section.notes.append("numbers of one trajectory; CPU time of one thread, one round")
    section.notes.append("the ratio is to the faster of those that play one at a time")
    return section


def _shown(one: dict[str, Any]) -> list[str]:
    keys = ("per_hour", "turns", "prompt_tokens", "read_tokens", "written_tokens")
    share = one["prompt_share"]
    return [f"{one[key]:,.1f}" for key in keys] + ["" if share is None else f"{share:.0%}"]


def _differing(found: dict[str, dict[str, Any]]) -> list[str]:
    """How many replies another way of playing changed."""
    batched = found["batched"]["replies"]
    return [
        f"{sum(text != batched[key] for key, text in one['replies'].items())} of {len(one['replies'])} replies "
        f"differ between batched and {name}"
        for name, one in found.items()
        if name != "batched"
    ]


def measured(home: str, way: str, name: str) -> dict[str, Any]:
    """Play with one contender.

    Returns:
        Of one trajectory: `turns`, `prompt_tokens` of all turns, `read_tokens` (those not kept from the turn before)
        and `written_tokens`. `per_hour` of CPU, `prompt_share` of the CPU time, and `replies` by request.
    """
    try:
        from oresmith.arena.tools import Toolbox
        from oresmith.evaluation.engines.inprocess import InProcess
        from oresmith.evaluation.evaluate import setup_of
        from oresmith.evaluation.harness import play
        from oresmith.evaluation.journal import open_journal
        from oresmith.param_models import Rollout
    except ImportError as error:
        raise SkippedError(f"the extras `arena` and `eval` are not installed ({error})") from error
    shop, cases = problems(TRAJECTORIES[name])
    model, batch = embedded(Path(home)), BATCH if name == "batched" else 1
    rules = Rollout(max_new_tokens=MOST[way], max_turns=TURNS)
    with closing(Plain(model) if name == "plain transformers" else InProcess(model, batch=batch)) as engine:
        reading = Reading(engine)
        noting = Led(engine, cases, Toolbox(shop)) if way == "led" else Noting(engine)
        setup = setup_of(engine, "m", rules)
        with tempfile.TemporaryDirectory() as scratch, open_journal(Path(scratch), "benchmark") as journal:
            begin = time.process_time()
            play(noting, cases, 1, setup=setup, toolboxes={"": Toolbox(shop)}, journal=journal, batch=batch)
            spent = time.process_time() - begin
    prompts = sum(reply.prompt_tokens or 0 for reply in noting.replies.values())
    return {
        "per_hour": len(cases) / spent * 3600,
        "turns": len(noting.replies) / len(cases),
        "prompt_tokens": prompts / len(cases),
        "read_tokens": (reading.tokens or prompts) / len(cases),
        "written_tokens": sum(reply.completion_tokens or 0 for reply in noting.replies.values()) / len(cases),
        "prompt_share": reading.seconds / spent if reading.tokens else None,
        "replies": {key: reply.text for key, reply in noting.replies.items()},
    }


def embedded(home: Path) -> Path:
    """The embedded model, written once."""
    from oresmith.models.base import write_base
    from oresmith.param_models import Base

    path = home / "embedded-model"
    if not path.exists():
        path.mkdir()
        write_base(Base(), path)
    return path


def problems(count: int) -> tuple[Any, list[Any]]:
    """A shop of the embedded world, and the first problems of the open suite over it, as cases."""
    from oresmith.arena.search import index_of
    from oresmith.arena.suites import make_suite, read_definition
    from oresmith.arena.world import documents
    from oresmith.evaluation.problems import Case

    made = list(documents(1, PRODUCTS))
    shop = index_of(made)
    suite = make_suite(read_definition(ROOT / "snapshots" / "arena" / "open-1.yaml"), made, shop, 1)
    kinds = [[one for one in suite.problems if one.problem.category == kind] for kind in ("product", "shop", "voucher")]
    mixed = [one for row in zip(*kinds, strict=False) for one in row]
    return shop, [Case(one.problem_id, one.problem, "") for one in mixed[:count]]


class Reading:
    """Counts the tokens of prompts that an engine of ours reads, and the CPU seconds that it takes for them."""

    def __init__(self, engine: Any) -> None:
        self.tokens, self.seconds = 0, 0.0
        if hasattr(engine, "_packed"):
            self._read = engine._packed.read
            engine._packed.read = self._counted

    def _counted(self, wanted: Sequence[Any]) -> Any:
        begin = time.process_time()
        scores = self._read(wanted)
        self.seconds += time.process_time() - begin
        self.tokens += sum(len(piece.ids) for piece in wanted)
        return scores


class Noting:
    """Keeps the replies of an engine."""

    def __init__(self, engine: Any) -> None:
        self.name, self.context, self.identity, self.close = engine.name, engine.context, engine.identity, engine.close
        self.engine = engine
        self.replies: dict[str, Any] = {}

    def chat(self, requests: Sequence[Any], sampling: Any) -> list[Any]:
        """The engine's replies."""
        replies: list[Any] = self.engine.chat(requests, sampling)
        self.replies |= {reply.key: reply for reply in replies}
        return replies


class Led(Noting):
    """Makes an engine of ours write what the expert would.

    Args:
        engine: its choice of tokens is replaced, after the same work.
        cases: the problems.
        toolbox: over their shop.
    """

    def __init__(self, engine: Any, cases: Sequence[Any], toolbox: Any) -> None:
        super().__init__(engine)
        from oresmith.evaluation.engines import inprocess

        self.cases, self.toolbox = {case.name: case for case in cases}, toolbox
        self._experts: dict[str, Any] = {}
        self._written: dict[int, list[int]] = {}
        choose = vars(inprocess)["choose"]

        def led(scores: Any, sampling: Any, draws: Sequence[Any]) -> list[int]:
            choose(scores, sampling, draws)
            return [draw.pop() for draw in draws]

        vars(inprocess).update(choose=led, Random=lambda seed: self._written[seed])

    def chat(self, requests: Sequence[Any], sampling: Any) -> list[Any]:
        """The expert's replies, written by the engine."""
        tokenizer = self.engine._chat.tokenizer
        for request in requests:
            said = [*tokenizer.plain(self._next(request.key.split("/")[0])), tokenizer.end]
            self._written[request.seed] = said[::-1]
        return super().chat(requests, sampling)

    def _next(self, name: str) -> str:
        from oresmith.arena.miners import brief_of, make_teacher

        if name not in self._experts:
            policy, results = make_teacher(brief_of(self.cases[name].problem), 1), None
        else:
            policy, results = self._experts[name]
        action = policy.observe(results)
        assert action is not None
        self._experts[name] = policy, [self.toolbox.call(called, given) for called, given in action.calls]
        return _written(action)


def _written(action: Any) -> str:
    from oresmith.models.replies import END, write_reply

    calls = [{"function": {"name": name, "arguments": json.dumps(given)}} for name, given in action.calls]
    said = {"content": action.response or "", "reasoning_content": action.think or None, "tool_calls": calls}
    return write_reply(said).removesuffix(END)


class Plain:
    """Generation as transformers has it: one conversation, read anew in every turn."""

    name = "plain"

    def __init__(self, model: Path) -> None:
        import torch

        from oresmith.models import Chat
        from oresmith.models.directory import check_directory, load_model

        torch.set_num_threads(1)
        self.chat_of, self.context = Chat.load(model), check_directory(model).context
        self.model = load_model(model)

    def chat(self, requests: Sequence[Any], sampling: Any) -> list[Any]:
        """Greedy replies."""
        import torch

        from oresmith.evaluation.engines.model import prompt_ids
        from oresmith.evaluation.records import ChatReply

        replies = []
        for request in requests:
            ids = torch.tensor([prompt_ids(request, self.chat_of)])
            with torch.inference_mode():
                found = self.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=sampling.max_new_tokens,
                    do_sample=False,
                )
            said = found[0, ids.shape[1] :].tolist()
            ended = said[-1] == self.chat_of.tokenizer.end
            reply = ChatReply(
                key=request.key,
                text=self.chat_of.tokenizer.decode(said[:-1] if ended else said),
                finish="stop" if ended else "length",
                prompt_tokens=ids.shape[1],
                completion_tokens=len(said),
            )
            replies.append(reply)
        return replies

    def identity(self) -> dict[str, Any]:
        """Only a name."""
        return {"engine": self.name}

    def close(self) -> None:
        """Nothing to do."""
