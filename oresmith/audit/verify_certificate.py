"""Checks a released dataset against its certificate, with nothing but Python's standard library (3.9 or later).

    python3 verify_certificate.py [DIR] [--corpus DIR] [--earlier CERTIFICATE]

DIR holds certificate/ and the data files (`--corpus` where they lie elsewhere). `--earlier` takes the certificate of an
earlier release: its ledger must be the beginning of this one's. Every failure names its place and gives exit code 1.
docs/certificate.md says what each check proves, and what only `oresmith verify`, which reads the Parquet files, can.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

SCHEMA, KEYS_VERSION = "oresmith.certificate/1", "oresmith.problem-keys/1"
KEYS, BEFORE, NEXT = "certificate/keys.tsv", "certificate/ledger.jsonl", "certificate/ledger.next.jsonl"
BESIDE = (KEYS, BEFORE, NEXT, "contamination.tsv")
COLUMNS = (
    b"row_id config shard row_sha256 problem query_key base_key tokens_key gold_keys spec_key cluster pool".split()
)
KINDS = ("cluster", "query", "base", "tokens", "gold", "spec")
SIDES = {"train": "train", "dev": "dev", "validation": "dev"}
LATER = ("heldout_rollouts", "scores")  # folders that come after the certificate; release.json lists them by hash
DATA_FILE = re.compile(r"([a-z_]+)/([a-z0-9_]+)-[A-Za-z0-9._-]+\.parquet")
HEX = re.compile(r"[0-9a-f]{64}")
MOST = 20  # failures that are printed of one check


class WrongError(Exception):
    """Something that cannot be read at all."""


class Checker:
    """The checks of one release; `failures` counts what they found."""

    def __init__(self, folder: Path, corpus: Path, tell: Callable[[str], None] = print) -> None:
        self.folder, self.corpus, self.tell = folder, corpus, tell
        self.failures = 0
        self.told: dict[str, int] = {}
        self.certificate: dict[str, Any] = {}
        self.problems: dict[str, tuple[bytes, str, str]] = {}  # name -> digest of its columns, cluster, pool
        self.guarded: dict[tuple[str, str], set[str]] = {}  # (kind, key) -> guarded places that hold it
        self.sizes: dict[tuple[str, str], set[str]] = {}  # (place, kind) -> keys
        self.benchmarks: dict[str, set[str]] = {}  # name -> problems
        self.latest: tuple[int, ...] = ()  # release of the ledger's lines so far

    def _fail(self, check: str, where: str, what: str) -> None:
        self.failures += 1
        self.told[check] = self.told.get(check, 0) + 1
        if self.told[check] <= MOST:
            self.tell(f"FAIL {check}: {_ascii_only(where)}: {_ascii_only(what)}")

    def run(self, earlier: Path | None = None) -> int:
        """All checks; the exit code. `earlier` is the certificate of an earlier release."""
        always = (self.load, self.files, self.ledger, self.rows, self.accounts)
        checks: list[tuple[str, Callable[[], str]]] = [(check.__name__, check) for check in always]
        if earlier:
            checks.append(("earlier", partial(self.continues, earlier)))
        for name, check in checks:
            before, said = self.failures, ""
            try:
                said = check()
            except (WrongError, OSError) as error:
                self._fail(name, getattr(error, "filename", None) or str(self.folder), str(error))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
                self._fail(name, "certificate/certificate.json", f"not of the form {SCHEMA}: {error!r}")
            if self.failures == before:
                self.tell(f"OK   {name}: {said}")
            elif name == "load":
                break
        return 1 if self.failures else 0

    def load(self) -> str:
        """The certificate can be read and is of a version that this file knows."""
        path = self.folder / "certificate" / "certificate.json"
        content = path.read_bytes()
        certificate = json.loads(content)
        if certificate["schema"] != SCHEMA or certificate["keys"]["version"] != KEYS_VERSION:
            raise ValueError(f"another version than {SCHEMA} with {KEYS_VERSION}")
        self.certificate = certificate
        return f"release {_ascii_only(self.certificate['release'])}, sha256 {hashlib.sha256(content).hexdigest()}"

    def files(self) -> str:
        """Every file is there, byte for byte, with the stated number of rows, and there is no other data file."""
        listed: set[str] = set()
        for entry in self.certificate["files"]:
            name = entry["path"]
            match = DATA_FILE.fullmatch(name)
            if not match or match.groups() != (entry["config"], entry["split"]) or name in listed:
                self._fail("files", name, "no place of a data file of this config and split")
                continue
            listed.add(name)
            if self._same(self.corpus / name, entry, name):
                rows = parquet_rows(self.corpus / name)
                if rows != entry["rows"]:
                    self._fail("files", name, f"holds {rows} rows, the certificate says {entry['rows']}")
        if set(self.certificate["beside"]) != set(BESIDE):
            self._fail("files", "certificate/certificate.json: beside", f"expected {', '.join(BESIDE)}")
        for name in BESIDE:
            self._same(self.folder / name, self.certificate["beside"][name], name)
        for path in sorted(self.corpus.rglob("*")):
            name = path.relative_to(self.corpus).as_posix()
            if name.lower().endswith(".parquet") and name not in listed and name.split("/")[0] not in LATER:
                self._fail("files", name, "a data file that the certificate does not name")
        return f"{len(listed)} data files and {len(BESIDE)} beside them are as certified"

    def _same(self, path: Path, entry: dict[str, Any], name: str) -> bool:
        if not path.is_file():
            self._fail("files", name, "is missing")
            return False
        digest = hashlib.sha256()
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != entry["sha256"] or path.stat().st_size != entry["bytes"]:
            self._fail("files", name, f"has sha256 {digest.hexdigest()}, the certificate says {entry['sha256']}")
            return False
        return True

    def ledger(self) -> str:
        """The ledger assigns every problem and every cluster once, and each release continues the one before."""
        digest = hashlib.sha256()
        releases: list[dict[str, Any]] = []
        pool_of: dict[str, str] = {}
        assigned: list[str] = []
        for where, raw in self._ledger_lines():
            digest.update(raw)
            try:
                line = json.loads(raw)
                place = line["pool"] + (f"@{line['held_out']}" if line.get("held_out") else "")
                if line["pool"] != "quarantine" and pool_of.setdefault(line["cluster"], place) != place:
                    self._fail("ledger", where, f"{line['cluster']} is in {place} and in {pool_of[line['cluster']]}")
                for keys in line["problems"]:
                    self._assign(where, line, place, keys)
                    assigned.append(f"{keys['problem']}\t{line['cluster']}\t{place}\n")
                if not releases or releases[-1]["release"] != line["release"]:
                    releases.append({"release": line["release"], "lines": 0, "problems": 0, "sha256": ""})
                releases[-1]["lines"] += 1
                releases[-1]["problems"] += len(line["problems"])
                releases[-1]["sha256"] = digest.hexdigest()
                self._in_its_file(where, line)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                self._fail("ledger", where, f"is no line of a ledger: {error!r}")
        stated = self.certificate["ledger"]
        if releases != stated["releases"] or digest.hexdigest() != stated["sha256"]:
            self._fail("ledger", f"{BEFORE} with {NEXT}", "not the chain of releases that the certificate states")
        if hashlib.sha256("".join(sorted(assigned)).encode()).hexdigest() != self.certificate["clusters"]["sha256"]:
            self._fail("ledger", "certificate/certificate.json: clusters", "is another clustering than the ledger's")
        return f"{len(self.problems)} problems in {len(pool_of)} clusters, each in one pool; {len(releases)} releases"

    def _ledger_lines(self) -> Iterator[tuple[str, bytes]]:
        for name in (BEFORE, NEXT):
            with (self.folder / name).open("rb") as file:
                for number, raw in enumerate(file, 1):
                    yield f"{name}:{number}", raw

    def _in_its_file(self, where: str, line: dict[str, Any]) -> None:
        """The lines of this release are those that it adds, and no release stands behind a later one."""
        now, release = _version(self.certificate["release"]), _version(line["release"])
        fits = release == now if where.startswith(NEXT) else self.latest <= release < now
        if not fits or line["keys"] != KEYS_VERSION:
            self._fail("ledger", where, f"a line of release {line['release']}, {line['keys']}, stands here")
        self.latest = max(self.latest, release)

    def _assign(self, where: str, line: dict[str, Any], place: str, keys: dict[str, Any]) -> None:
        name, gold = keys["problem"], keys.get("gold", [])
        plain = [keys.get(kind, "") for kind in ("query", "base", "tokens")]
        if name in self.problems:
            self._fail("ledger", where, f"problem {name} is assigned again")
        if plain[0] and name != _name_of([*plain, keys.get("spec", ""), *gold]):
            self._fail("ledger", where, f"problem {name} has other keys than its name says")
        spec = keys.get("spec", "") if self._states_enough(keys) else ""
        columns = [name, *plain, ",".join(gold), spec, line["cluster"], place]
        self.problems[name] = (_digest_of(columns), line["cluster"], place)
        for guarded in self._places(line, place):
            for kind, key in _values(columns):
                self.guarded.setdefault((kind, key), set()).add(guarded)
                self.sizes.setdefault((guarded, kind), set()).add(key)

    def _states_enough(self, keys: dict[str, Any]) -> bool:
        least = self.certificate["keys"]
        wanted = (("constraints", "min_constraints"), ("pairs", "min_pairs"))
        return all(keys.get(stated, 0) >= least[bound] for stated, bound in wanted)

    def _allowed(self, name: str) -> bool:
        return bool(self.certificate["benchmarks"].get(name, {}).get("allowed"))

    def _places(self, line: dict[str, Any], place: str) -> set[str]:
        """The guarded sets that a line's problems belong to."""
        pools = [pool[10:] for pool in (line["pool"], *line.get("joined", [])) if pool.startswith("benchmark:")]
        names = {name for pool in pools for name in pool.split("+")}
        for name in names:
            self.benchmarks.setdefault(name, set()).update(keys["problem"] for keys in line["problems"])
        found = {f"benchmark:{name}" for name in names if not self._allowed(name)}
        return found | ({place} if line["pool"] in ("heldout", "dev") else set())

    def rows(self) -> str:
        """Every row's problem is in the ledger's pool and in its split, and no claimed intersection holds anything."""
        shards = {entry["path"]: entry for entry in self.certificate["files"]}
        seen: dict[str, int] = dict.fromkeys(shards, 0)
        ids: set[bytes] = set()
        problems: dict[tuple[str, str], set[str]] = {}
        left: dict[tuple[str, str], set[str]] = {}
        published: set[str] = set()
        with (self.folder / KEYS).open("rb") as file:
            for number, raw in enumerate(file, 1):
                where, cells = f"{KEYS}:{number}", raw[:-1].split(b"\t")
                if number == 1 or len(cells) != len(COLUMNS) or not raw.endswith(b"\n"):
                    if number > 1 or cells != COLUMNS:
                        self._fail("rows", where, "no row of this table")
                    continue
                row_id, config, shard, row_hash, problem, *_ = found = [cell.decode() for cell in cells]
                if shard not in shards or shards[shard]["config"] != config or not HEX.fullmatch(row_hash):
                    self._fail("rows", where, f"row {row_id} is in no certified file of config {config}")
                    continue
                seen[shard] += 1
                name = hashlib.sha256(f"{config}\t{row_id}".encode()).digest()[:16]
                if name in ids:
                    self._fail("rows", where, f"row {row_id} stands twice in {config}")
                ids.add(name)
                split = shards[shard]["split"]
                members = problems.setdefault((config, split), set())
                if config == "rejects":
                    continue
                if config == "trajectories":
                    published.add(row_id)
                elif config == "sft" and row_id not in published:
                    self._fail("rows", where, f"row {row_id} of sft is not in trajectories")
                members.add(problem)
                if self._row(where, split, found):
                    self._apart(where, SIDES.get(split, ""), found, left)
        for shard, count in seen.items():
            if count != shards[shard]["rows"]:
                self._fail("rows", KEYS, f"lists {count} rows of {shard}, which holds {shards[shard]['rows']}")
        self._counted(seen, shards, problems)
        self._claimed(left)
        return f"{sum(seen.values())} rows, each in its problem's pool; {len(self.certificate['claims'])} claims hold"

    def _row(self, where: str, split: str, found: list[str]) -> bool:
        problem, pool = found[4], found[11]
        known = self.problems.get(problem)
        if known is None or known[0] != _digest_of(found[4:]):
            said = "in no line of it" if known is None else f"of pool {known[2]}, or with other keys"
            self._fail("rows", where, f"row {found[0]}: by the ledger its problem {problem} is {said}")
            return False
        trained = pool == "train" or (pool.startswith("benchmark:") and all(map(self._allowed, pool[10:].split("+"))))
        fits = (
            trained
            if split == "train"
            else pool == (SIDES.get(split) or split.replace("heldout_", "heldout@").replace("_", "-"))
        )
        if not fits:
            self._fail("rows", where, f"row {found[0]} of pool {pool} stands in split {split}")
        return fits

    def _apart(self, where: str, side: str, found: list[str], left: dict[tuple[str, str], set[str]]) -> None:
        for kind, key in _values(found[4:]) if side else ():
            left.setdefault((side, kind), set()).add(key)
            for place in self.guarded.get((kind, key), ()):
                if place.startswith("heldout") or (side == "train"):
                    self._fail("rows", where, f"row {found[0]} of {side} shares {kind} {key} with {place}")

    def _counted(self, seen: dict[str, int], shards: dict[str, Any], problems: dict[tuple[str, str], set[str]]) -> None:
        """The counts of each config and split are those of its rows."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for shard, count in seen.items():
            config, split = shards[shard]["config"], shards[shard]["split"]
            names = problems.get((config, split), set())
            clusters = {self.problems[name][1] for name in names if name in self.problems}
            entry = found.setdefault(config, {}).setdefault(split, {"rows": 0})
            entry.update(rows=entry["rows"] + count, problems=len(names), clusters=len(clusters))
        trained = set().union(*(names for (_, split), names in problems.items() if split == "train"))
        stated = {name: (one["problems"], one["published"]) for name, one in self.certificate["benchmarks"].items()}
        if stated != {name: (len(held), len(held & trained)) for name, held in self.benchmarks.items()}:
            self._fail("rows", "certificate/certificate.json: benchmarks", "the rows and the ledger give other numbers")
        if found != self.certificate["counts"]:
            self._fail("rows", "certificate/certificate.json: counts", f"the rows give {json.dumps(found)[:2000]}")

    def _claimed(self, left: dict[tuple[str, str], set[str]]) -> None:
        """Each intersection that must be claimed is, with the sizes that the files give, and nothing shared."""
        sides = [("train", place) for place in self._sides()] + [
            ("dev", p) for p in self._sides() if p.startswith("heldout")
        ]
        expected = {
            (side, place, kind, len(left.get((side, kind), ())), len(self.sizes.get((place, kind), ())), 0)
            for side, place in sides
            for kind in KINDS
        }
        fields = ("left", "right", "by", "left_size", "right_size", "shared")
        stated = {tuple(claim[field] for field in fields) for claim in self.certificate["claims"]}
        for claim in sorted(stated ^ expected, key=str):
            said = "is claimed, but not so" if claim in stated else "must be claimed, and is not"
            self._fail("rows", "certificate/certificate.json: claims", f"{claim} {said}")

    def _sides(self) -> list[str]:
        return sorted({place for place, _ in self.sizes})

    def accounts(self) -> str:
        """Of every input file all lines read are published, withheld or rejected."""
        counts, total = self.certificate["counts"], {"trajectories": 0, "subtask": 0, "rejects": 0}
        read = 0
        for entry in self.certificate["accounts"]:
            where = f"{entry['snapshot']}/{entry['file']}"
            withheld, rejects = sum(entry["withheld"].values()), sum(entry["rejected"].values())
            if entry["read"] != entry["trajectories"] + entry["subtask"] + withheld + rejects:
                self._fail("accounts", where, f"{entry['read']} lines were read, but not as many are accounted for")
            for config, number in (
                ("trajectories", entry["trajectories"]),
                ("subtask", entry["subtask"]),
                ("rejects", rejects),
            ):
                total[config] += number
            read += entry["read"]
        for config, number in total.items():
            rows = sum(split["rows"] for split in counts.get(config, {}).values())
            if rows != number:
                self._fail("accounts", config, f"holds {rows} rows, the accounts of the input files say {number}")
        parts = ", ".join(f"{number} {config}" for config, number in total.items())
        return f"{read} lines read = {parts}, {read - sum(total.values())} withheld"

    def continues(self, earlier: Path) -> str:
        """This ledger begins with the whole ledger of an earlier release: no assignment of it has changed."""
        try:
            chain = json.loads(earlier.read_bytes())["ledger"]["releases"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise WrongError(f"{earlier} is no certificate: {error!r}") from error
        if self.certificate["ledger"]["releases"][: len(chain)] != chain:
            self._fail("earlier", str(earlier), "the ledger of this release does not begin with that one's")
        return f"the ledger begins with that of {_ascii_only(str(earlier))}"


def _values(columns: list[str]) -> Iterator[tuple[str, str]]:
    """(kind, key) of a row's last eight columns, those that are empty left out."""
    _, query, base, tokens, gold, spec, cluster, _ = columns
    pairs = [("cluster", cluster), ("query", query), ("base", base), ("tokens", tokens), ("spec", spec)]
    pairs += [("gold", key) for key in gold.split(",")]
    return ((kind, key) for kind, key in pairs if key)


def _digest_of(columns: list[str]) -> bytes:
    return hashlib.sha256("\t".join(columns).encode()).digest()[:16]


def _name_of(keys: list[str]) -> str:
    """A problem's name: the hash of its keys, 32 zero bytes for one that is missing."""
    prefix = f"problem\0{KEYS_VERSION}\0".encode()
    return hashlib.sha256(prefix + b"".join(bytes.fromhex(key) or bytes(32) for key in keys)).hexdigest()


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _ascii_only(text: str) -> str:
    """Text of a file that may be hostile: nothing that a terminal obeys."""
    return text[:2000].encode("unicode_escape").decode()


def parquet_rows(path: Path) -> int:
    """`num_rows` of a Parquet file: field 3 of the footer, a struct of Thrift's compact protocol."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > size - 12:
            raise WrongError(f"{path.name} is no Parquet file")
        file.seek(size - 8 - length)
        footer = _Thrift(file.read(length))
    try:
        return footer.integer(3)
    except (IndexError, RecursionError):
        raise WrongError(f"the footer of {path.name} cannot be read") from None


class _Thrift:
    """As much of the compact protocol as it takes to find an integer in a struct."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return value

    def _header(self) -> tuple[int, int]:
        """(step to the field's id, its type); (0, 0) at the end of a struct."""
        byte = self.data[self.at]
        self.at += 1
        if byte and not byte >> 4:
            self._varint()
        return byte >> 4, byte & 15

    def integer(self, wanted: int) -> int:
        """The integer field of that id."""
        number = 0
        while True:
            step, kind = self._header()
            number += step
            if not kind or number > wanted:
                raise IndexError(wanted)
            if number == wanted:
                value = self._varint()
                return (value >> 1) ^ -(value & 1)
            self._skip(kind)

    def _skip(self, kind: int) -> None:
        if self.at > len(self.data):  # or a list of a length that was made up would be walked through
            raise IndexError(self.at)
        if kind in (3, 7):
            self.at += 1 if kind == 3 else 8
        elif kind in (4, 5, 6):
            self._varint()
        elif kind == 8:
            length = self._varint()
            self.at += length
        elif kind in (9, 10):
            byte = self.data[self.at]
            self.at += 1
            for _ in range(self._varint() if byte >> 4 == 15 else byte >> 4):
                self._skip(3 if byte & 15 in (1, 2) else byte & 15)
        elif kind == 12:
            while (found := self._header()) != (0, 0):
                self._skip(found[1])
        elif kind not in (1, 2):
            raise IndexError(kind)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parent, metavar="DIR")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--earlier", type=Path)
    given = parser.parse_args(arguments)
    checker = Checker(given.folder, given.corpus or given.folder)
    checker.run(given.earlier)
    print(f"{checker.failures} failures" if checker.failures else "the release is as its certificate says")
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
