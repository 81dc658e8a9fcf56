"""Every file is the one that `release.json` lists, and there is no other."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from oresmith.errors import OresmithError
from oresmith.param_release import Gate
from oresmith.release.layout import PARTS, RELEASE_FILE, SIGNATURE_FILE
from oresmith.release.manifest import PartRelease, Release, read_part, read_release
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened

UNLISTED = frozenset((RELEASE_FILE, SIGNATURE_FILE, ".gitattributes"))
"""What stands beside the listed files: the list, its signature, and what the Hub adds."""
CACHE = ".cache/huggingface/"
"""Where `hf download --local-dir` keeps its own notes."""
NOTES, NOTED = (".metadata", ".lock"), (".gitignore", "CACHEDIR.TAG")
"""Endings and names of these notes."""
ROOT = frozenset((*PARTS, RELEASE_FILE, SIGNATURE_FILE, "manifest.json"))
"""What stands in a bundle beside nothing else."""


def check(opened: Opened) -> Findings:
    """See the module."""
    count = size = 0
    parts: dict[str, PartRelease] = {}
    for kind, folder in opened.folders.items():
        if not (folder / RELEASE_FILE).is_file():
            yield Finding("there is none: the release has no version, and no list of its files", RELEASE_FILE)
            continue
        parts[kind] = part = read_part(folder)
        yield from _states(opened, kind, part)
        yield from _files(opened, folder, part)
        count += len(part.files)
        size += sum(file.bytes for file in part.files)
    if opened.kind == "bundle":
        yield from _root(opened.root)
        yield from _together(read_release(opened.root), parts)
    return f"{count:,} files, {size / 1e6:,.1f} MB"


def version_of(opened: Opened) -> str | None:
    """The version that a release states; None where it states none."""
    for folder in opened.folders.values():
        try:
            return read_part(folder).version
        except OresmithError:
            continue
    return None


def stated_files(folder: Path) -> Iterator[str]:
    """Paths of all files below a folder, links and folders that are links included."""
    for root, folders, names in os.walk(folder):
        links = [name for name in folders if Path(root, name).is_symlink()]
        for name in sorted([*names, *links]):
            yield Path(root, name).relative_to(folder).as_posix()


def skipped(opened: Opened, folder: Path, name: str) -> bool:
    """Whether a file is a note of the client that downloaded this one repository, and no part of a release."""
    if opened.kind == "bundle" or opened.tag is not None or not name.startswith(CACHE):
        return False
    last = name.rpartition("/")[2]
    return (last.endswith(NOTES) or last in NOTED) and stat.S_ISREG((folder / name).lstat().st_mode)


def _root(bundle: Path) -> Iterator[Finding]:
    for path in sorted(bundle.iterdir()):
        if path.name not in ROOT:
            yield Finding("stands in the bundle, and no release has it", path.name[:200])
        elif path.is_symlink() or not (path.is_dir() if path.name in PARTS else path.is_file()):
            yield Finding("is a link, or not of its kind", path.name)


def _states(opened: Opened, kind: str, part: PartRelease) -> Iterator[Finding]:
    if part.kind != kind:
        yield Finding(f"states that it is a {part.kind}, and stands where the {kind} is expected", RELEASE_FILE)
    if opened.tag is not None and opened.tag not in (part.version, f"v{part.version}"):
        yield Finding(f"the tag {opened.tag} leads to a release that calls itself {part.version}", RELEASE_FILE)
    waived = {waiver.gate for waiver in part.waivers}
    for name in Counter(get_args(Gate)) - Counter(gate.name for gate in part.gates):
        yield Finding(f"gate {name} was not tried", RELEASE_FILE)
    for name in sorted(Counter(gate.name for gate in part.gates) - Counter(get_args(Gate))):
        yield Finding(f"gate {name[:80]} stands twice, or is none", RELEASE_FILE)
    for gate in part.gates:
        if gate.state == "failed" or (gate.state == "waived") != (gate.name in waived):
            yield Finding(f"gate {gate.name} is {gate.state}, without or against a waiver: {gate.detail}", RELEASE_FILE)


def _files(opened: Opened, folder: Path, part: PartRelease) -> Iterator[Finding]:
    prefix = f"{part.kind}/" if opened.kind == "bundle" else ""
    found = {name for name in stated_files(folder) if not skipped(opened, folder, name)}
    for name in sorted(found & UNLISTED):
        if not stat.S_ISREG((folder / name).lstat().st_mode):
            yield Finding("is no plain file", prefix + name)
    for file in part.files:
        path, name = folder / file.path, prefix + file.path
        if path.is_symlink() or not path.is_file():
            yield Finding("is missing, or no plain file", name)
            continue
        size = path.stat().st_size
        with path.open("rb") as reader:
            digest = hashlib.file_digest(reader, "sha256").hexdigest()
        if (digest, size) != (file.sha256, file.bytes):
            yield Finding(f"has {size:,} bytes and sha256 {digest}; listed are {file.bytes:,} and {file.sha256}", name)
    for name in sorted(found - {file.path for file in part.files} - UNLISTED):
        yield Finding("is there, and release.json does not list it", prefix + name)


def _together(whole: Release, parts: dict[str, PartRelease]) -> Iterator[Finding]:
    """What the three lists of a bundle say is the same."""
    for kind, part in parts.items():
        listed = tuple(file for file in whole.part(kind).files if file.path != RELEASE_FILE)
        if listed != part.files:
            yield Finding(f"lists other files of the {kind} than {kind}/{RELEASE_FILE}", RELEASE_FILE)
        stated = (part.version, part.repository, part.release_sha256, part.code_tree)
        if stated != (whole.version, whole.part(kind).repository, whole.content_sha256, whole.code_tree):
            yield Finding(
                f"states another version, repository, content or code than {RELEASE_FILE}", f"{kind}/{RELEASE_FILE}"
            )
        if (part.gates, part.waivers, part.previous) != (whole.gates, whole.waivers, whole.previous):
            yield Finding(
                f"states other gates, waivers or another earlier release than {RELEASE_FILE}", f"{kind}/{RELEASE_FILE}"
            )
        other = parts.get(part.counterpart.kind)
        if other is None or other is part:
            yield Finding("names no counterpart that is here", f"{kind}/{RELEASE_FILE}")
        elif (part.counterpart.repository, part.counterpart.version, part.counterpart.content_sha256) != (
            other.repository,
            other.version,
            other.content_sha256,
        ):
            yield Finding(f"names another {other.kind} than the one beside it", f"{kind}/{RELEASE_FILE}")
