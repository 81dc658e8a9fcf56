"""The commit of a release: what it holds, and how it comes into git whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.leakage.ledger import check_ledger, earlier_lines, read_ledger
from oresmith.release.gates_git import COMMITTED
from oresmith.release.git import Repository
from oresmith.release.layout import BUNDLE, FROZEN, LEDGER, LEDGER_NEXT, RELEASE_FILE, RELEASES
from oresmith.release.plan import Plan

TAG = "release/"
"""What a version's tag begins with, apart from the tags of the software."""
Tell = Callable[[str], None]
_SCRATCH = "oresmith-cut-"


def tag_of(version: str) -> str:
    """The git tag of a release."""
    return f"{TAG}{version}"


def frozen_files(root: Path, version: str) -> dict[str, Path]:
    """Path below the project -> file of the bundle, for everything that is frozen."""
    bundle, folder = root / BUNDLE, RELEASES / version
    found = {f"{folder}/{RELEASE_FILE}": bundle / RELEASE_FILE}
    for source, target in FROZEN.items():
        place = bundle / source
        if place.is_dir():
            for path in sorted(path for path in place.rglob("*") if path.is_file()):
                found[f"{folder}/{target}/{path.relative_to(place).as_posix()}"] = path
        elif place.is_file():
            found[f"{folder}/{target}"] = place
    return found


def whole_ledger(root: Path, version: str) -> bytes:
    """The ledger with the lines that this release adds.

    Raises:
        OresmithError: the two do not fit, or the bundle's certificate holds another ledger.
    """
    path = root / LEDGER
    now, new = read_ledger(path), read_ledger(root / LEDGER_NEXT)
    strange = sorted({line.release for line in new} - {version})
    if strange or len(earlier_lines(now, version)) != len(now):
        raise OresmithError(
            "the ledger is not at the release before this one",
            where=str(path),
            expected=f"lines of releases below {version}, and new ones of {version}",
            got=", ".join(strange or sorted({line.release for line in now})),
            todo="restore the ledger from version control, and run `dvc repro`",
        )
    check_ledger([*now, *new], str(path))
    before = path.read_bytes() if path.is_file() else b""
    added = (root / LEDGER_NEXT).read_bytes()
    certified = root / BUNDLE / "dataset/certificate"
    for stated, content in (("ledger.jsonl", before), ("ledger.next.jsonl", added)):
        if (certified / stated).read_bytes() != content:
            raise OresmithError(
                "the certificate holds another ledger", where=str(certified / stated), todo="run `dvc repro`"
            )
    return before + added


def commit_release(
    repository: Repository,
    found: Plan,
    files: dict[str, Path],
    ledger: bytes,
    *,
    dry_run: bool,
    tell: Tell,
) -> str | None:
    """One commit and its tag, by one transaction of refs; the working tree is not touched."""
    version, head, root = found.version, repository.head(), repository.root
    tracked = [name for name in COMMITTED if (root / name).exists() or repository.holds("HEAD", name)]
    for path in sorted(files):
        tell(f"freeze {path}")
    tell(f"append {LEDGER_NEXT} to {LEDGER}")
    tell(f"commit these with {', '.join(tracked) or 'nothing else'} on {head[:12]}; tag {tag_of(version)}")
    if dry_run:
        return None
    for left in repository.directory().glob(f"{_SCRATCH}*"):  # by a cut that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=repository.directory()) as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        repository.run("read-tree", "HEAD", env=index)
        if tracked:
            repository.run("add", "--all", "--", *tracked, env=index)
        entries = {path: _stored(repository, source.read_bytes()) for path, source in files.items()}
        entries[LEDGER.as_posix()] = _stored(repository, ledger)
        listed = "".join(f"100644 {blob}\t{repository.prefix}{path}\0" for path, blob in sorted(entries.items()))
        repository.run("update-index", "-z", "--add", "--index-info", stdin=listed.encode(), env=index)
        tree = repository.run("write-tree", env=index)
    signed = repository.run("config", "--bool", "--default", "false", "--get", "commit.gpgSign") == "true"
    command = ["commit-tree", *(["-S"] if signed else []), "-p", head, tree]
    commit = repository.run(*command, stdin=_message(found).encode())
    tag = repository.run("mktag", stdin=_tag(repository, commit, version).encode())
    changes = f"start\nupdate HEAD {commit} {head}\ncreate refs/tags/{tag_of(version)} {tag}\nprepare\ncommit\n"
    repository.run("update-ref", "--create-reflog", "-m", f"release cut {version}", "--stdin", stdin=changes.encode())
    return commit


def _stored(repository: Repository, content: bytes) -> str:
    return repository.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content)


def _message(found: Plan) -> str:
    release = found.release
    lines = [f"Release {found.version}", "", f"content {release.content_sha256}", f"code {release.code_tree}"]
    lines += [f"waived: {waiver.gate}, by {waiver.who}: {waiver.why}" for waiver in release.waivers]
    return "\n".join(lines) + "\n"


def _tag(repository: Repository, commit: str, version: str) -> str:
    who = repository.run("var", "GIT_COMMITTER_IDENT")
    return f"object {commit}\ntype commit\ntag {tag_of(version)}\ntagger {who}\n\nRelease {version}\n"


def bring(repository: Repository, version: str, commit: str, tell: Tell) -> None:
    """Bring index and working tree to what the cut committed, and nothing else.

    Raises:
        OresmithError: a later commit took the release away, or somebody has changed its files since.
    """
    folder, ledger = f"{RELEASES}/{version}", LEDGER.as_posix()
    if not repository.holds("HEAD", folder):
        raise OresmithError(
            "a later commit removed the folder of the release",
            where=folder,
            todo=f"git checkout {tag_of(version)} -- {folder}, and commit it",
        )
    paths = [folder, ledger]
    if repository.head() == commit:
        paths += [name for name in COMMITTED if repository.holds("HEAD", name)]
    repository.run("reset", "--quiet", "HEAD", "--", *paths)
    if repository.changed_in(folder, deleted=False):
        raise OresmithError("the files of the release were changed", where=folder, todo="git checkout -- " + folder)
    found = [folder] if repository.changed_in(folder) else []
    if repository.changed_in(ledger):
        _refuse_own_changes(repository, commit)
        found.append(ledger)
    if found:
        repository.run("checkout", "--quiet", "HEAD", "--", *found)
        tell(f"working tree: {', '.join(found)}")


def _refuse_own_changes(repository: Repository, commit: str) -> None:
    """A ledger that is not the one from before the cut was changed by somebody, whose work is not thrown away."""
    path, before = repository.root / LEDGER, f"{commit}^:{repository.prefix}{LEDGER}"
    known = repository.run("rev-parse", "--verify", before) if repository.ok("cat-file", "-e", before) else ""
    if path.is_file() and repository.run("hash-object", "--no-filters", str(path)) != known:
        raise OresmithError("the ledger was changed since the cut", where=str(path), todo=f"git checkout -- {LEDGER}")
