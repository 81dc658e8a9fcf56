"""Rollouts of a policy that is being trained, with the very tokens that it was given and drew.

An episode is played as in an evaluation (`evaluation.episode`). What is trained on are its tokens as they were sampled:
nothing is tokenised again. Where a turn's prompt goes on from the turn before token by token, both stand in one
segment; where it does not (a template that drops earlier thinking, a reply that the tokenizer would write in other
tokens), a new segment begins. So every sampled token is trained on behind the prompt that it was drawn behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from oresmith.arena.tools import Toolbox
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import prompt_ids
from oresmith.evaluation.episode import Episode, Setup
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ChatReply, ChatRequest, Rollout, Sampling
from oresmith.models.rendering import Chat

if TYPE_CHECKING:
    from oresmith.evaluation.engines.inprocess import Answer

CLIPPED = frozenset({"length", "context", "turns"})
"""Ends of an episode that a limit made."""


class Policy(Protocol):
    """A model that is sampled between its updates, without dropout."""

    chat: Chat
    context: int
    """Tokens of prompt and answer together."""

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        """One answer a request, in their order, from the request and the weights alone."""

    def refresh(self, model: Any) -> None:
        """Take the weights of the model that is trained, adapter merged."""

    def close(self) -> None:
        """Free the copy."""


class Drawn(NamedTuple):
    """One turn in tokens."""

    prompt: list[int]
    sampled: list[int]
    """The end token included, where one was drawn."""
    text: str
    """What the engine made of the tokens, its end token aside."""
    end: int | None
    """The end token; None for a reply that was cut."""
    scores: list[float] | None = None
    """Log-probability that the sampler gave each token; None where it is the trained model itself."""


class Segment(NamedTuple):
    """Turns in one sequence of tokens."""

    ids: list[int]
    mask: list[int]
    """1 on what was sampled; as long."""
    turns: list[Drawn]
    """Those that were sampled in it, in order."""

    def scores(self) -> list[float]:
        """The sampler's log-probabilities, 0 where nothing was sampled; as long as `ids`."""
        waiting = iter([score for turn in self.turns for score in turn.scores or [0.0] * len(turn.sampled)])
        return [next(waiting) if one else 0.0 for one in self.mask]


class Sampled(NamedTuple):
    """One finished episode."""

    case: Case
    rollout: Rollout
    segments: list[Segment]

    @property
    def clipped(self) -> bool:
        """Whether a limit ended it."""
        return self.rollout.ended in CLIPPED


class Job(NamedTuple):
    """An episode to play."""

    case: Case
    sample: int
    """Its number, unique among all of the problem."""


def play(
    policy: Policy, jobs: Sequence[Job], setup: Setup, toolboxes: Mapping[str, Toolbox], max_completion: int
) -> list[Sampled]:
    """Play episodes, all at the same time.

    Args:
        policy: writes the turns.
        jobs: what to play.
        setup: what all share; its `context` bounds prompt and answer.
        toolboxes: the tools, by the shops of the cases.
        max_completion: tokens after an episode's first prompt, results of tools included.

    Returns:
        One a job, in their order.

    Raises:
        OresmithError: the policy fails, or a first prompt leaves no room for an answer.
    """
    games = [_Game(job, policy, setup, toolboxes, max_completion) for job in jobs]
    while live := [game for game in games if game.ready()]:
        requests = [game.episode.request() for game in live]
        for game, answer in zip(live, policy.answer(requests, setup.sampling), strict=True):
            game.take(answer)
    return [game.finished() for game in games]


def segments_of(turns: Sequence[Drawn]) -> list[Segment]:
    """The turns of an episode in as few sequences as they have without a change of tokens."""
    found: list[Segment] = []
    for turn in turns:
        last = found[-1] if found else None
        if last is None or turn.prompt[: len(last.ids)] != last.ids:
            last = Segment([], [], [])
            found.append(last)
        shown = turn.prompt[len(last.ids) :]
        last.ids.extend(shown + turn.sampled)
        last.mask.extend([0] * len(shown) + [1] * len(turn.sampled))
        last.turns.append(turn)
    return found


class _Game:
    """An episode and the tokens of its turns."""

    def __init__(
        self, job: Job, policy: Policy, setup: Setup, toolboxes: Mapping[str, Toolbox], max_completion: int
    ) -> None:
        self.case, self.chat, self.turns = job.case, policy.chat, list[Drawn]()
        self.episode = Episode(job.case, job.sample, setup, toolboxes[job.case.shop])
        first = len(prompt_ids(self.episode.request(), self.chat))
        room = min(setup.context, policy.context)
        self.episode.setup = replace(setup, context=min(room, first + max_completion))
        if first + setup.sampling.max_new_tokens > self.episode.setup.context:
            raise OresmithError(
                "a problem leaves no room for an answer",
                where=f"problem {job.case.name[:64]}",
                expected=f"a prompt and {setup.sampling.max_new_tokens} new tokens within {room}, and no more new"
                " tokens of one turn (grpo.max_new_tokens) than of all (grpo.max_completion)",
                got=f"a prompt of {first}, and {max_completion} tokens after it",
            )

    def ready(self) -> bool:
        """Whether another turn is to be written; an episode without room for one ends here."""
        if self.episode.ended is None:
            request, setup = self.episode.request(), self.episode.setup
            if len(prompt_ids(request, self.chat)) + setup.sampling.max_new_tokens > setup.context:
                self.episode.take(ChatReply(key=request.key, text="", finish="context"))
        return self.episode.ended is None

    def take(self, answer: Answer) -> None:
        """Take a turn in, tokens and all."""
        reply = answer.reply
        if reply.finish not in ("stop", "length"):
            raise OresmithError(
                "the policy could not be sampled",
                where=f"problem {self.case.name[:64]}",
                got=(reply.error or reply.finish)[:300],
            )
        end = answer.sampled[-1] if reply.finish == "stop" else None
        self.turns.append(Drawn(answer.prompt, answer.sampled, reply.text, end, answer.scores))
        self.episode.take(reply)

    def finished(self) -> Sampled:
        return Sampled(self.case, self.episode.rollout(), segments_of(self.turns))
