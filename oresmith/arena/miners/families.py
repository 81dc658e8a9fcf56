"""The families of miners, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from oresmith.arena.miners.agents import Run, play_injector, play_leaker, play_looper, play_styled, play_terse
from oresmith.arena.miners.fakes import play_decoy, play_forger, play_puppet
from oresmith.arena.miners.programs import play_narrator, play_searcher


class Family(NamedTuple):
    """One family."""

    name: str
    origin: Literal["A", "B"]
    """Who chooses the calls: A the model, B the program."""
    play: Callable[[Run], None]
    """Plays one problem; what it leaves in the run's session is the trace."""
    model_ms: float
    """Typical time of an inference call."""


_ALL = (
    Family("expert", "A", play_styled, 1500.0),
    Family("careful", "A", play_styled, 1400.0),
    Family("quick", "A", play_styled, 500.0),
    Family("browsing", "A", play_styled, 900.0),
    Family("terse", "A", play_terse, 600.0),
    Family("searcher", "B", play_searcher, 700.0),
    Family("narrator", "B", play_narrator, 800.0),
    Family("decoy", "B", play_decoy, 150.0),
    Family("puppet", "B", play_puppet, 400.0),
    Family("forger", "B", play_forger, 300.0),
    Family("leaker", "A", play_leaker, 1200.0),
    Family("injector", "A", play_injector, 700.0),
    Family("looper", "A", play_looper, 800.0),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
