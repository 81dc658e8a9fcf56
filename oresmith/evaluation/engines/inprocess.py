"""The engine `transformers`: a model directory run in this process, on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, NamedTuple

import torch
import transformers

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import end_tokens, ids_sha256, model_identity, prompt_ids
from oresmith.evaluation.engines.packed import PackedModel, Piece, Row, common
from oresmith.evaluation.engines.probe import probe
from oresmith.evaluation.engines.sampling import choose
from oresmith.evaluation.records import ChatReply, ChatRequest, Finish, Sampling
from oresmith.models.directory import check_directory, load_model
from oresmith.models.rendering import Chat


class Answer(NamedTuple):
    """A reply with the very tokens that it was drawn as."""

    reply: ChatReply
    prompt: list[int]
    """Ids that the model was given; empty where they could not be rendered."""
    sampled: list[int]
    """Ids that it drew, the end token included where it drew one."""
    scores: list[float] | None = None
    """Log-probability of each, from engines whose numbers are not those of the model that is trained."""


class InProcess:
    """Runs a model with transformers. Replies depend on the request and the model alone where the machine allows it.

    Args:
        model: its directory.
        dtype: that it is computed in, float32 or bfloat16.
        threads: of the process.
        batch: conversations at the same time. Memory holds the keys and values of so many up to their next turn.
        max_context: tokens of prompt and answer together; None for the model's own.
        device: that it is computed on, as torch names it.

    Raises:
        OresmithError: a directory that is none or unsafe, or a model that this engine does not compute right.
    """

    name = "transformers"

    def __init__(
        self,
        model: Path,
        *,
        dtype: str = "float32",
        threads: int = 1,
        batch: int = 16,
        max_context: int | None = None,
        device: str = "cpu",
    ) -> None:
        torch.set_num_threads(threads)
        transformers.utils.logging.disable_progress_bar()
        self._checked = check_directory(model)
        self._chat = Chat(self._checked.template, self._checked.tokenizer)
        self._ends = frozenset(end_tokens(self._checked))
        self._batch = batch
        self.context = min(self._checked.context, max_context or self._checked.context)
        self._packed, invariant = probe(load_model(model, dtype=dtype).to(device), self._checked.vocabulary)
        self._identity: dict[str, Any] = {"engine": self.name} | model_identity(self._checked)
        self._identity |= {"dtype": dtype, "threads": threads, "batch_changes_bits": not invariant}
        self._identity |= {"torch": str(torch.__version__), "transformers": transformers.__version__}
        self._kept: dict[str, Row] = {}
        self._trunk = Row()

    @property
    def chat_form(self) -> Chat:
        """Template and tokenizer that prompts are rendered with."""
        return self._chat

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a reply."""
        return self._ends

    def refresh(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Take other weights; what was read with the old ones is forgotten.

        Args:
            weights: names as the model of the directory has them, and tensors of the same shapes.
        """
        self._kept, self._trunk = {}, Row()
        self._packed.refresh(weights)

    def identity(self) -> dict[str, Any]:
        """Files, template, numbers and programs; `batch_changes_bits` says whether other rows can change a row's."""
        return dict(self._identity)

    def close(self) -> None:
        """Free the model."""
        self._kept, self._trunk = {}, Row()
        self.__dict__.pop("_packed", None)

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        """One reply a request, in their order; `seconds` counts from the start of the request's batch."""
        return [answer.reply for answer in self.answer(requests, sampling)]

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        """As `chat`, with the tokens of each reply."""
        # What is not asked for has ended, and what an interruption leaves half-read is not kept.
        names = {_conversation(request) for request in requests}
        kept, self._kept = {name: row for name, row in self._kept.items() if name in names}, {}
        answers: list[Answer] = []
        for start in range(0, len(requests), self._batch):
            turns = [_Turn(request, sampling) for request in requests[start : start + self._batch]]
            self._answer(turns, sampling, kept)
            answers += [Answer(turn.reply(self._chat), turn.prompt, turn.sampled()) for turn in turns]
            self._kept |= {turn.name: turn.row for turn in turns if turn.error is None}
        return answers

    def _answer(self, turns: list[_Turn], sampling: Sampling, kept: dict[str, Row]) -> None:
        live = [turn for turn in turns if self._prepare(turn, sampling)]
        try:
            for turn in live:
                self._begin(turn, kept)
            _generate(live, self._packed, sampling, self._ends)
        except (RuntimeError, MemoryError) as error:  # torch runs out of memory with either
            for turn in live:
                if turn.finish is None:
                    turn.fail(f"{type(error).__name__}: {error}")

    def _prepare(self, turn: _Turn, sampling: Sampling) -> bool:
        """Render the prompt; says whether there is anything to run."""
        try:
            turn.prompt = prompt_ids(turn.request, self._chat)
        except OresmithError as error:
            turn.fail(str(error))
            return False
        if len(turn.prompt) + sampling.max_new_tokens > self.context:
            turn.finish = "context"
        return turn.finish is None

    def _begin(self, turn: _Turn, kept: dict[str, Row]) -> None:
        """Take up what is kept of the conversation, or what all conversations begin with."""
        row = kept.pop(turn.name, None)
        if row is not None and (same := common(row.ids, turn.prompt)):
            turn.row = row
            row.cut(min(same, len(turn.prompt) - 1))
            return
        start = self._chat.tokenizer.start
        heads = [place for place, token in enumerate(turn.prompt) if token == start]
        # Cut at the same place whether the trunk is there or not, so that both give the same bits.
        trunk = turn.prompt[: heads[1]] if len(heads) > 1 else []
        if trunk and self._trunk.ids != trunk:
            self._trunk = Row()
            self._packed.read([Piece(self._trunk, trunk)])
        turn.row = self._trunk.copy() if trunk else Row()


class _Turn:
    """A request that is being answered."""

    def __init__(self, request: ChatRequest, sampling: Sampling) -> None:
        self.request, self.began = request, perf_counter()
        self.name = _conversation(request)
        self.draw = Random(request.seed)  # noqa: S311 - to be repeatable
        self.prompt: list[int] = []
        """Empty where it could not be rendered."""
        self.row = Row()
        self.said: list[int] = []
        """Tokens of the reply, its end token aside."""
        self.drawn = 0
        """Tokens drawn, the end token included."""
        self.end: list[int] = []
        """The end token, where one was drawn."""
        self.finish: Finish | None = None
        self.error: str | None = None
        self.seconds = 0.0

    def fail(self, why: str) -> None:
        """End without a reply."""
        self.finish, self.error, self.said, self.end = "error", why[:500], [], []

    def take(self, token: int, ends: frozenset[int], limit: int) -> bool:
        """Take the next token; says whether the reply goes on."""
        self.drawn += 1
        if token in ends:
            self.finish, self.end = "stop", [token]
        else:
            self.said.append(token)
            if self.drawn >= limit:
                self.finish = "length"
        self.seconds = perf_counter() - self.began
        return self.finish is None

    def sampled(self) -> list[int]:
        """Tokens drawn, the end token included."""
        return self.said + self.end

    def reply(self, chat: Chat) -> ChatReply:
        """What came of it."""
        return ChatReply(
            key=self.request.key,
            text=chat.tokenizer.decode(self.said),
            finish=self.finish or "error",
            prompt_tokens=len(self.prompt) or None,
            completion_tokens=self.drawn,
            prompt_sha256=ids_sha256(self.prompt) if self.prompt else None,
            error=self.error,
            seconds=self.seconds,
        )


def _conversation(request: ChatRequest) -> str:
    """What the turns of one sample share in their names."""
    return request.key.rpartition("/")[0] or request.key


def _generate(turns: list[_Turn], packed: PackedModel, sampling: Sampling, ends: frozenset[int]) -> None:
    """Write all replies at the same time; one that ends leaves the batch."""
    if not turns:
        return
    scores = packed.read([Piece(turn.row, turn.prompt[len(turn.row.ids) :]) for turn in turns])
    while True:
        turns, scores = _sound(turns, scores)
        tokens = choose(scores, sampling, [turn.draw for turn in turns])
        going = [
            (turn, token)
            for turn, token in zip(turns, tokens, strict=True)
            if turn.take(token, ends, sampling.max_new_tokens)
        ]
        if not going:
            return
        turns = [turn for turn, _ in going]
        scores = packed.step([Piece(turn.row, [token]) for turn, token in going])


def _sound(turns: list[_Turn], scores: Any) -> tuple[list[_Turn], Any]:
    """The turns whose scores are numbers; the others fail."""
    finite = torch.isfinite(scores.amax(-1))
    for turn, sound in zip(turns, finite.tolist(), strict=True):
        if not sound:
            turn.fail("the model gives scores that are no numbers")
    return [turn for turn in turns if turn.finish is None], scores[finite]
