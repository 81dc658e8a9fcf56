"""`cut_killer VERSION WHERE before|after`: a cut that kills itself around a call of git, by its number or its verb."""

from __future__ import annotations

import os
import signal
import sys

from oresmith.release.cut import cut
from oresmith.release.git import Repository

calls = 0
_run = Repository._run
version, where, moment = sys.argv[1:]


def counted(self, arguments, stdin, env):
    global calls  # noqa: PLW0603 - one process, one count
    calls += 1
    here = where in (str(calls), arguments[0])
    if here and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = _run(self, arguments, stdin, env)
    if here:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


Repository._run = counted
cut(version, tell=lambda line: None)
print(calls)
