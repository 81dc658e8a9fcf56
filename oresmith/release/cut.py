"""`oresmith release cut X.Y.Z`: freezes a release into git: one commit and its tag, or nothing.

The commit is made beside the working tree, with an index of its own, and appears together with its tag in one
transaction of refs. Only then the working tree is brought to it. So after a kill at any moment there is either no
release, or a whole one in git; cutting again brings the working tree to what git has.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from oresmith.errors import OresmithError
from oresmith.release.codetree import CODE, code_root
from oresmith.release.freezing import Tell, bring, commit_release, frozen_files, tag_of, whole_ledger
from oresmith.release.gates import refused
from oresmith.release.git import Repository
from oresmith.release.history import versions_of
from oresmith.release.layout import BUNDLE, RELEASE_FILE, RELEASES
from oresmith.release.manifest import Release, read_release
from oresmith.release.plan import Plan, plan
from oresmith.validation.versions import parse_version


class Cut(NamedTuple):
    """A release that was cut."""

    version: str
    commit: str
    tag: str
    release: Release
    again: bool
    """Whether it had been cut before."""


def cut(version: str, root: Path = Path(), *, dry_run: bool = False, tell: Tell = print) -> Cut | None:
    """Freeze the bundle as a release: commit, tag, and push of the DVC cache where a remote is set.

    Commits `releases/X.Y.Z/`, the ledger with this release's assignments, `dvc.lock`, `metrics/` and `plots/`, and
    nothing else. Interrupted anywhere and repeated, it ends the same.

    Args:
        version: X.Y.Z, as `release.version` has it.
        root: of the project.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Returns:
        The release; None for a dry run.

    Raises:
        OresmithError: no branch is checked out, another version than the parameters', a gate that fails, a stale
            bundle, no identity, a tag or a folder that holds something else; nothing has changed then.
    """
    parse_version(version)
    repository = Repository(root)
    with _alone(repository):
        _on_branch(repository)
        done = repository.commit_of(f"refs/tags/{tag_of(version)}")
        if done is not None:
            return _again(repository, root, version, done, dry_run=dry_run, tell=tell)
        found = _checked(version, root, repository)
        files, ledger = frozen_files(root, version), whole_ledger(root, version)
        commit = commit_release(repository, found, files, ledger, dry_run=dry_run, tell=tell)
        if commit is None:
            _push(root, dry_run=True, tell=tell)
            return None
        bring(repository, version, commit, tell)
        _push(root, dry_run=False, tell=tell)
        return Cut(version, commit, tag_of(version), found.release, False)


def _on_branch(repository: Repository) -> None:
    """Without a branch, nothing but the tag would lead to the commit, and the next checkout would leave it behind."""
    if not repository.ok("symbolic-ref", "-q", "HEAD"):
        raise OresmithError(
            "no branch is checked out (the HEAD is detached)",
            where=str(repository.root),
            expected="a branch, which the cut's commit goes to",
            todo="git switch BRANCH, or git switch --create BRANCH to begin one here",
        )


def _again(repository: Repository, root: Path, version: str, commit: str, *, dry_run: bool, tell: Tell) -> Cut | None:
    """A release that git has: bring the working tree to it, and refuse another bundle under its name."""
    release = _in_git(repository, commit, version)
    if not repository.ok("merge-base", "--is-ancestor", commit, "HEAD"):
        raise OresmithError(
            "this release was cut on another branch",
            where=tag_of(version),
            got=commit,
            todo=f"git merge {tag_of(version)}, or delete the tag: git tag --delete {tag_of(version)}",
        )
    bundle = root / BUNDLE / RELEASE_FILE
    if bundle.is_file():
        made = read_release(bundle)
        if made.version == version and made.content_sha256 != release.content_sha256:
            raise OresmithError(
                "this version was cut with other content, and a release never changes",
                where=tag_of(version),
                expected=release.content_sha256,
                got=made.content_sha256,
                todo="raise release.version and run `dvc repro`",
            )
    tell(f"release {version} was cut before: commit {commit[:12]}, tag {tag_of(version)}")
    if dry_run:
        return None
    bring(repository, version, commit, tell)
    _push(root, dry_run=False, tell=tell)
    return Cut(version, commit, tag_of(version), release, True)


def _in_git(repository: Repository, commit: str, version: str) -> Release:
    path = RELEASES / version / RELEASE_FILE
    if not repository.holds(commit, path.as_posix()):
        raise OresmithError(
            "a tag of this name is there, and its commit holds no such release",
            where=tag_of(version),
            expected=str(path),
            todo="find out who made the tag; a release's tag never moves",
        )
    text = repository.run("cat-file", "blob", f"{commit}:{repository.prefix}{path}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / RELEASE_FILE
        path.write_text(text + "\n", "utf-8")
        return read_release(path)


def _checked(version: str, root: Path, repository: Repository) -> Plan:
    """Everything that can refuse, before anything is written."""
    from oresmith.params import PARAMS_FILE, load_params

    wanted = load_params(root / PARAMS_FILE).release.version
    if wanted != version:
        raise OresmithError(
            "the parameters name another version",
            where="params.yaml: release.version",
            expected=version,
            got=wanted,
            todo=f"set release.version to {version} and run `dvc repro`: the cards carry it",
        )
    if version in versions_of(root):
        raise OresmithError(
            "the folder of this release is there, and git has no tag of it",
            where=str(root / RELEASES / version),
            todo=f"put the folder away; `git tag {tag_of(version)} COMMIT` if it was cut elsewhere",
        )
    repository.identity()
    found = plan(root)
    stopped = refused(found.gates)
    if stopped:
        told = "; ".join(f"{gate.name}: {gate.detail}" for gate in stopped)
        raise OresmithError(
            "a gate stops this release",
            where=", ".join(gate.name for gate in stopped),
            got=told[:2000],
            todo="mend it, or waive it with who and why in release.waivers",
        )
    _check_code(repository, root)
    _check_pipeline(root)
    return found


def _check_code(repository: Repository, root: Path) -> None:
    """The code that made the bundle is the committed one, where the project holds the code."""
    from oresmith.release.codetree import code_tree, tree_hash

    if code_root() != root.resolve():
        return
    entries = [("40000", name, repository.tree_of("HEAD", name)) for name in CODE]
    found = tree_hash([(mode, name, bytes.fromhex(tree)) for mode, name, tree in entries if tree]).hex()
    if found != code_tree():
        raise OresmithError(
            "the code differs from what is committed, in files that git ignores",
            where=str(root),
            expected=found,
            got=code_tree(),
            todo="remove ignored files from the code's folders, and run `dvc repro`",
        )


def _check_pipeline(root: Path) -> None:
    """DVC knows of nothing that `dvc repro` would do again before the bundle."""
    if not (root / "dvc.yaml").is_file() or not (root / ".dvc").is_dir():
        return
    done = _dvc(root, "status", "--json", "--with-deps", "bundle")
    if done[0] or done[1].strip() not in ("{}", ""):
        raise OresmithError(
            "the bundle is not what `dvc repro` would make now",
            where=str(root / "dvc.yaml"),
            got=(done[1] or done[2]).strip()[:400],
            todo="run `dvc repro`",
        )


def _push(root: Path, *, dry_run: bool, tell: Tell) -> None:
    """Push the DVC cache, where a default remote is set.

    Raises:
        OresmithError: DVC fails; the release is cut all the same, and cutting again pushes again.
    """
    if not (root / ".dvc").is_dir():
        return
    code, remote, _ = _dvc(root, "config", "core.remote")
    if code or not remote.strip():
        return
    tell(f"push the DVC cache to {remote.strip()}")
    if dry_run:
        return
    code, out, fault = _dvc(root, "push")
    if code:
        raise OresmithError(
            "the release is cut, but DVC could not push its cache",
            where=remote.strip(),
            got=(fault or out).strip()[-400:],
            todo="mend the remote and run the same command again",
        )


def _dvc(root: Path, *arguments: str) -> tuple[int, str, str]:
    import subprocess
    import sys

    done = subprocess.run(  # noqa: S603 - arguments are ours, and no shell reads them
        [sys.executable, "-m", "dvc", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"DVC_NO_ANALYTICS": "1"},
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def _alone(repository: Repository) -> Iterator[None]:
    """Hold the lock of cutting: two at once would race for the same refs."""
    path = repository.directory() / "oresmith-cut.lock"
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OresmithError("another cut is running", where=str(path), todo="wait for it to end") from None
        yield
