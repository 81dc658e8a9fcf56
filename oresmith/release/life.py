"""Yanking a release and undoing it: the Hub first, then the record in `releases/`, so that a crash is found again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.release.history import Known, find_release
from oresmith.release.layout import YANKED_FILE
from oresmith.release.manifest import Yanked, encode
from oresmith.release.publish.released import HUB, PORT, open_target
from oresmith.release.publish.target import Target
from oresmith.stage import write_small

Tell = Callable[[str], None]


def yank_release(
    version: str,
    reason: str,
    root: Path = Path(),
    *,
    endpoint: str | None = None,
    hub: Path = HUB,
    port: int = PORT,
    target: Target | None = None,
    dry_run: bool = False,
    tell: Tell = print,
) -> None:
    """Take a release off `main` of its Hub and write down why. Repeated after an interruption it ends the same.

    Args:
        version: X.Y.Z.
        reason: one line.
        root: of the project.
        endpoint: the Hub, where it is another than the release was published on.
        hub: where the embedded Hub keeps what it holds.
        port: of the embedded Hub.
        target: the Hub with its token, in place of `endpoint` and the environment.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Raises:
        OresmithError: it was never cut, was yanked for another reason, or the Hub refuses.
    """
    found = find_release(version, root)
    told = reason.strip()
    bad = next((character for character in told if not character.isprintable()), None)
    if not told or len(told) > 500 or bad is not None:
        got = f"{len(told)} characters" if bad is None else f"U+{ord(bad):04X}, which cannot be printed"
        raise OresmithError(
            "a yank needs a reason of one line", where="--reason", expected="1 to 500 printable characters", got=got
        )
    if found.yanked is not None and found.yanked.reason != told:
        raise OresmithError(
            "this release is yanked already, for another reason",
            where=str(found.folder / YANKED_FILE),
            got=found.yanked.reason,
            todo=f"oresmith release unyank {version}, then yank it anew",
        )
    if found.published is not None:
        from oresmith.release.publish.yanking import yank

        with _opened(found, endpoint, target, root / hub, port) as place:
            yank(found.release, told, place, dry_run=dry_run, tell=tell)
    tell(f"write {found.folder / YANKED_FILE}")
    if not dry_run:
        write_small(found.folder / YANKED_FILE, encode(Yanked(version=version, reason=told)))


def unyank_release(
    version: str,
    root: Path = Path(),
    *,
    endpoint: str | None = None,
    hub: Path = HUB,
    port: int = PORT,
    target: Target | None = None,
    dry_run: bool = False,
    tell: Tell = print,
) -> None:
    """Undo a yank, on the Hub and in `releases/`.

    Args:
        version: X.Y.Z.
        root: of the project.
        endpoint: as for `yank_release`, and so are the rest.
        target: the Hub with its token.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Raises:
        OresmithError: the release is not yanked, or the Hub refuses.
    """
    found = find_release(version, root)
    if found.yanked is None:
        raise OresmithError("this release is not yanked", where=str(found.folder), got=found.state)
    if found.published is not None:
        from oresmith.release.publish.yanking import unyank

        with _opened(found, endpoint, target, root / hub, port) as place:
            unyank(found.release, place, dry_run=dry_run, tell=tell)
    tell(f"remove {found.folder / YANKED_FILE}")
    if not dry_run:
        (found.folder / YANKED_FILE).unlink(missing_ok=True)


def _opened(
    found: Known, endpoint: str | None, target: Target | None, hub: Path, port: int
) -> AbstractContextManager[Target]:
    """The Hub where it was published; the embedded one is started and stopped."""
    if target is not None:
        return nullcontext(target)
    stated = found.published.endpoint if found.published else None
    return open_target(found.release, endpoint or stated, hub=hub, port=port)
