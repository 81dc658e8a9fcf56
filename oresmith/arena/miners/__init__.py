"""The first miners: in-process agents that shop in a world and leave the envelopes of SN15's two runtimes.

`play_run` plays a version of one of the `FAMILIES` on problems. `make_teacher` gives the expert as a policy that
another harness drives step by step. A process sandbox would stand where `Session` stands; a judge and a race would
read what `play_run` yields.
"""

from oresmith.arena.miners.agents import make_teacher
from oresmith.arena.miners.brief import Brief, Wish, brief_of
from oresmith.arena.miners.families import FAMILIES, Family
from oresmith.arena.miners.play import Played, agent_version, play_run
from oresmith.arena.miners.policy import Action, Policy
from oresmith.arena.miners.session import Session

__all__ = [
    "FAMILIES",
    "Action",
    "Brief",
    "Family",
    "Played",
    "Policy",
    "Session",
    "Wish",
    "agent_version",
    "brief_of",
    "make_teacher",
    "play_run",
]
