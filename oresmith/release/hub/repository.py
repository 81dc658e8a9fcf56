"""One repository: its settings, its git repository and its large files."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from oresmith.release.hub import names
from oresmith.release.hub.git import Change, Commit, Entry, Git, MovedError, Written
from oresmith.release.hub.objects import Objects
from oresmith.release.hub.refusal import Refusal

MAX_REGULAR = 10 << 20
"""Bytes of a file from which on it is kept beside git, as on the Hub."""
LARGE = (
    "7z arrow bin bz2 ckpt ftz gguf gz h5 jpeg jpg joblib lz4 mlmodel model msgpack npy npz onnx parquet pb pickle pkl "
    "png pt pth rar safetensors tar tflite tgz wasm webp xz zip zst"
).split()
"""Endings of files that are kept beside git whatever their size."""
ATTRIBUTES = "".join(f"*.{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in LARGE).encode()
_MOVED = "A commit has happened since. Please refresh and try again."


class Settings(msgspec.Struct):
    """What of a repository is not in git."""

    uid: str
    private: bool
    created: str
    """As the clients parse it: `%Y-%m-%dT%H:%M:%S.000Z`."""


class Repository:
    """One repository; whoever changes it holds `lock`."""

    def __init__(self, kind: names.Kind, owner: str, name: str, folder: Path) -> None:
        self.kind, self.owner, self.id, self.folder = kind, owner, f"{owner}/{name}", folder
        self.git = Git(folder / "git")
        self.objects = Objects(folder / "objects", folder / "incoming")
        self.lock = threading.Lock()
        self.settings = msgspec.json.decode((folder / "settings.json").read_bytes(), type=Settings)

    @staticmethod
    def create(folder: Path, settings: Settings, user: str) -> None:
        """Make a repository with its first commit in an empty folder.

        Raises:
            GitError: git is not there, or refuses.
        """
        git = Git(folder / "git")
        git.create()
        attributes = [Written(".gitattributes", ATTRIBUTES)]
        git.commit(Change("refs/heads/main", None, attributes, (), user, "initial commit"))
        (folder / "settings.json").write_bytes(msgspec.json.encode(settings))

    @property
    def address(self) -> str:
        """Path of the repository's page."""
        return f"/{self.id}" if self.kind == "model" else f"/{self.kind}s/{self.id}"

    def show(self, *, private: bool) -> None:
        """Hide it, or show it to everybody."""
        with self.lock:
            changed = msgspec.structs.replace(self.settings, private=private)
            new = self.folder / "settings.json.new"
            new.write_bytes(msgspec.json.encode(changed))
            new.replace(self.folder / "settings.json")
            self.settings = changed

    def commit_of(self, revision: str) -> str:
        """The commit of a branch, a tag (also as `refs/heads/..`, `refs/tags/..`) or a commit's whole id.

        Raises:
            Refusal: 404.
        """
        found, whole = None, revision.startswith(("refs/heads/", "refs/tags/"))
        if names.is_commit(revision) or (whole and names.is_ref(revision.split("/", 2)[2])):
            found = self.git.head(revision)
        elif names.is_ref(revision):
            found = self.git.head(f"refs/heads/{revision}") or self.git.head(f"refs/tags/{revision}")
        if found is None:
            raise Refusal(404, f"Invalid rev id: {revision[:100]}", "RevisionNotFound")
        return found

    def entry(self, commit: str, path: str) -> Entry:
        """A file or folder of a commit.

        Raises:
            Refusal: 404.
        """
        found = self.git.tree(commit).get(path)
        if found is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", commit=commit)
        return found

    def below(self, commit: str, folder: str, *, recursive: bool) -> list[Entry]:
        """What a folder of a commit holds; `folder` is empty for all.

        Raises:
            Refusal: 404, no such folder.
        """
        tree, prefix = self.git.tree(commit), f"{folder}/" if folder else ""
        if folder and not (folder in tree and tree[folder].folder):
            raise Refusal(404, "Entry not found", "EntryNotFound", commit=commit)
        inside = (entry for path, entry in tree.items() if path.startswith(prefix))
        return [entry for entry in inside if recursive or "/" not in entry.path[len(prefix) :]]

    def last_commit(self, commit: str, path: str) -> Commit | None:
        """The last one, up to `commit`, that touched a file or folder."""
        return self.git.touched(commit).get(path)

    def readme(self, commit: str) -> str:
        """The card; empty where there is none."""
        entry = self.git.tree(commit).get("README.md")
        if entry is None or entry.folder or entry.oid is not None:
            return ""
        return self.git.blob(entry.blob).decode("utf-8", "replace")

    def commit(
        self,
        branch: str,
        *,
        parent: str | None,
        writes: Iterable[Written],
        added: Sequence[str],
        removed: Sequence[str],
        user: str,
        message: str,
    ) -> str:
        """Put one commit on a branch, if it is where the caller believes.

        Args:
            branch: its name.
            parent: id of the commit, or its first digits, that the branch must be at; None takes any.
            writes: the files, taken one at a time.
            added: their paths.
            removed: files, and folders with a `/` at the end, that go.
            user: the author.
            message: title, empty line, text.

        Raises:
            Refusal: 404 no such branch or file to remove, 412 the branch is elsewhere, 400 a file where a folder is.
        """
        ref = f"refs/heads/{branch}"
        with self.lock:
            head = self.git.head(ref)
            if head is None:
                raise Refusal(404, f"Invalid rev id: {branch}", "RevisionNotFound")
            if parent and not head.startswith(parent):
                raise Refusal(412, _MOVED)
            gone = self._gone(head, removed)
            _refuse_overlaps([path for path in self._files(head) if path not in gone], added)
            try:
                return self.git.commit(Change(ref, head, writes, [path.rstrip("/") for path in removed], user, message))
            except MovedError:
                raise Refusal(412, _MOVED) from None

    def add_branch(self, branch: str, commit: str) -> None:
        """Start a branch.

        Raises:
            Refusal: 409, a branch or tag has the name.
        """
        with self.lock:
            self._refuse_taken(branch)
            try:
                self.git.point(f"refs/heads/{branch}", commit, None)
            except MovedError:
                raise Refusal(409, f"Reference refs/heads/{branch} already exists") from None

    def add_tag(self, tag: str, commit: str, message: str | None, user: str) -> None:
        """Name a commit.

        Raises:
            Refusal: 409, a branch or tag has the name.
        """
        with self.lock:
            self._refuse_taken(tag)
            try:
                if message:
                    self.git.annotate(tag, commit, message, user)
                else:
                    self.git.point(f"refs/tags/{tag}", commit, None)
            except MovedError:
                raise Refusal(409, f"Tag reference exists already: {tag}") from None

    def drop(self, ref: str) -> None:
        """Take a branch or tag (full name) away; its commits stay.

        Raises:
            Refusal: 404, it is not there.
        """
        with self.lock:
            there = dict(self.git.unpeeled())
            if ref not in there:
                raise Refusal(404, f"Reference {ref} doesn't exist", "RevisionNotFound")
            self.git.point(ref, None, there[ref])

    def _refuse_taken(self, name: str) -> None:
        """A branch and a tag of one name would each hide the other from somebody."""
        for ref in (f"refs/heads/{name}", f"refs/tags/{name}"):
            if self.git.head(ref) is not None:
                label = "Tag reference" if ref.startswith("refs/tags/") else "Reference"
                raise Refusal(409, f"{label} exists already: {name}")

    def _files(self, commit: str) -> list[str]:
        return [path for path, entry in self.git.tree(commit).items() if not entry.folder]

    def _gone(self, head: str, removed: Sequence[str]) -> set[str]:
        tree, gone = self.git.tree(head), set()
        for path in removed:
            entry = tree.get(path.rstrip("/"))
            if entry is None or entry.folder != path.endswith("/"):
                raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound", commit=head)
            if entry.folder:
                gone |= {name for name in tree if name.startswith(path)}
            gone.add(entry.path)
        return gone


def _refuse_overlaps(kept: Sequence[str], added: Sequence[str]) -> None:
    """No file may lie where another path needs a folder: git would drop one of them without a word."""
    files = {*kept, *added}
    folders: set[str] = set()
    for path in files:
        while "/" in path:
            path = path.rsplit("/", 1)[0]  # noqa: PLW2901 (upwards)
            folders.add(path)
    if clash := sorted(files & folders):
        raise Refusal(400, f"A file and a folder cannot have one name: {clash[0]}")
