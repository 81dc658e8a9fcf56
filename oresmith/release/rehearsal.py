"""`oresmith release rehearse`: cut, publish and verify in a scratch clone, so that the checkout stays as it is.

The clone has an identity of its own and shares DVC's cache; the Hub is the embedded one. Repeated, it verifies what it
finds; where another bundle was made since, the clone and its Hub are made anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.profiles import cache_of
from oresmith.release.git import Repository
from oresmith.release.layout import BUNDLE, RELEASE_FILE, RELEASES
from oresmith.release.manifest import Release, read_release
from oresmith.release.publish.released import HUB, PORT

CLONE = Path("runs/release")
"""Where the clone lies in a project; git ignores it."""
AUTHOR = {"user.name": "Oresmith rehearsal", "user.email": "rehearsal@oresmith.invalid", "commit.gpgSign": "false"}
MOVED = ("dvc.lock", "metrics", "plots")
"""What a run writes outside of DVC's cache, which the cut commits."""
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "0",
    "HF_DATASETS_OFFLINE": "0",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
Tell = Callable[[str], None]


def rehearse(root: Path = Path(), *, port: int = PORT, tell: Tell = print) -> None:
    """Cut, publish and verify what `dvc repro` has made, in `runs/release`.

    Args:
        root: of the project, a git repository's top directory.
        port: of the embedded Hub.
        tell: takes one line for each step.

    Raises:
        OresmithError: no bundle, no repository, or a command that refuses; the commands say why themselves.
    """
    made = read_release(root / BUNDLE)
    clone = root / CLONE
    if not _holds(root, clone, made):
        _make(root, clone, made, tell)
    _checkout(clone)  # of a clone that is there, too: an earlier one may have ended halfway
    version = made.version
    _command(clone, "release", "cut", version)
    _command(clone, "publish", version, "--port", str(port))
    from oresmith.release.hub.server import serve

    owners = dict.fromkeys(part.repository.partition("/")[0] for part in (made.dataset, made.model))
    with serve(clone / HUB, port=port, owners=tuple(owners)) as served:
        for kind, part in (("datasets", made.dataset), ("models", made.model)):
            tell(f"verify {part.repository}@{version} from {served.endpoint}")
            _command(clone, "verify", f"{kind}/{part.repository}@{version}", env={"HF_ENDPOINT": served.endpoint})
    tell(f"released {version} in {CLONE}; to look at it: cd {CLONE} && oresmith hub serve")


def _holds(root: Path, clone: Path, made: Release) -> bool:
    """Whether the clone is of this very bundle, and cut, or of the commit that is checked out."""
    path = clone / BUNDLE
    if not (path / RELEASE_FILE).is_file() or read_release(path) != made:
        return False
    return (clone / RELEASES / made.version).is_dir() or Repository(clone).head() == Repository(root).head()


def _make(root: Path, clone: Path, made: Release, tell: Tell) -> None:
    """A clone of the commit that is checked out, with the run's lock, metrics, plots and data."""
    if (root / RELEASES / made.version).exists():
        raise OresmithError(
            "this version was cut here already",
            where=str(RELEASES / made.version),
            todo=f"oresmith publish {made.version}, or raise release.version",
        )
    repository, cache = Repository(root), cache_of(root)
    dirty = [
        line[3:] for line in repository.run("status", "--porcelain").splitlines() if line[3:].split("/")[0] not in MOVED
    ]
    if dirty:
        raise OresmithError(
            "a rehearsal clones what is committed, and this checkout holds more",
            where=str(root.resolve().name),
            got=", ".join(dirty[:5])[:200],
            todo="commit it, and run `dvc repro` again",
        )
    if clone.exists():
        tell(f"{CLONE} is not of this bundle: it is made anew")
        shutil.rmtree(clone)
    tell(f"clone into {CLONE}")
    clone.parent.mkdir(parents=True, exist_ok=True)
    repository.run("clone", "--quiet", "--no-hardlinks", str(root.resolve()), str(clone.resolve()))
    scratch = Repository(clone)
    if not scratch.ok("symbolic-ref", "-q", "HEAD"):  # as the checkout of a CI job is, and a cut needs a branch
        scratch.run("checkout", "--quiet", "-B", "rehearsal")
    for key, value in AUTHOR.items():
        scratch.run("config", key, value)
    for name in MOVED:
        _copy(root / name, clone / name)
    (clone / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {cache}\n", "utf-8")


def _checkout(clone: Path) -> None:
    """What the lock names, from the project's cache."""
    _run(clone, [sys.executable, "-m", "dvc", "checkout", "--quiet"])


def _copy(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.is_file():
        shutil.copyfile(source, target)


def _command(clone: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """An oresmith command of the clone's own code."""
    _run(clone, [sys.executable, "-m", "oresmith", *arguments], env)


def _run(clone: Path, command: list[str], env: Mapping[str, str] | None = None) -> None:
    """Errors: OresmithError where the command fails; what it printed says why."""
    told = {name: value for name, value in os.environ.items() if name not in ("HF_ENDPOINT", "HF_TOKEN")}
    done = subprocess.run(  # noqa: S603 - arguments are ours, and no shell reads them
        command,
        cwd=clone,
        check=False,
        env=told | _ENVIRONMENT | {"PYTHONPATH": str(clone.resolve())} | dict(env or {}),
    )
    if done.returncode:
        raise OresmithError(
            "a step of the rehearsal failed", where=str(clone), got=" ".join(command[2:]), todo="see its message above"
        )
