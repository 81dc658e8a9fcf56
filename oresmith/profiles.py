"""Profiles: `profiles/NAME.yaml` states what differs from params.yaml, and runs in a project directory of its own.

DVC reads the params.yaml beside dvc.yaml and no other. A profile that is written there, or given as `dvc exp run -S`,
leaves the committed parameters changed (after a kill, too), and its run overwrites the default's data; `dvc exp run
--temp` throws its directory away, and with it the checkpoints of a killed stage. So a profile runs in runs/NAME: the
same code and sources through links, a merged params.yaml, dvc.lock and data/ of its own, and the project's cache, from
which it takes whatever has run before.
"""

from __future__ import annotations

import configparser
import difflib
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import ParameterError
from oresmith.param_checks import check_combinations
from oresmith.params import PARAMS_FILE, Params, check_params
from oresmith.stage import write_small
from oresmith.yamlfile import READ_FAULTS, read_yaml

PROFILES = Path("profiles")
RUNS = Path("runs")
OWN = frozenset({"data", "metrics", "plots", "runs", "dvc.yaml", "dvc.lock", "params.yaml"})
"""What a run has itself; everything else in the root that is not hidden it sees through links."""
PATHS = frozenset(
    {"path", "provenance", "catalogue", "vault", "vault_secret", "key_file", "vllm_python", "include", "model"}
)
"""Keys of paths. One that begins with a dot leads out of the project or to a hidden place, which no link shows."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_HEAD = (
    "# params.yaml with profiles/{name}.yaml over it, made by `oresmith profile {name}`: change those two, not this.\n"
)


def profile_path(name: str, root: Path = Path()) -> Path:
    """The file of a profile.

    Args:
        name: as after `PROFILE=`.
        root: of the project.

    Raises:
        ParameterError: no name, or nothing of this name is there.
    """
    path = root / PROFILES / f"{name}.yaml"
    if _NAME.fullmatch(name) and path.is_file():
        return path
    known = sorted(found.stem for found in (root / PROFILES).glob("*.yaml") if is_profile(found))
    near = difflib.get_close_matches(name, known, n=1)
    raise ParameterError(
        "there is no such profile",
        where=str(root / PROFILES),
        expected=", ".join(known) or "a file NAME.yaml",
        got=name[:80],
        todo=f"did you mean {near[0]}?" if near else "",
    )


def is_profile(path: Path) -> bool:
    """Whether a YAML file beside the profiles is one: its top keys are namespaces of the parameters."""
    try:
        raw = read_yaml(path)
    except READ_FAULTS:
        return False
    return isinstance(raw, dict) and bool(raw) and set(raw) <= {one.name for one in msgspec.structs.fields(Params)}


def merged(base: Any, over: Any) -> Any:
    """`over` on top of `base`: mappings key by key, everything else (lists, too) replaced whole; new objects only."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: merged(base.get(key), over[key]) if key in over else base[key] for key in {**base, **over}}
    return over


def read_profile(name: str | None, root: Path = Path()) -> dict[str, Any]:
    """The raw parameters of a profile, merged; those of params.yaml alone for None.

    Raises:
        ParameterError: a file is missing, unreadable or no mapping.
    """
    raw = _mapping(root / PARAMS_FILE)
    if name is not None:
        raw = merged(raw, _mapping(profile_path(name, root)))
    return raw


def load_profile(name: str | None, root: Path = Path()) -> Params:
    """The typed parameters of a profile, whole; those of params.yaml for None.

    Raises:
        ParameterError: as `load_params`; the message names the profile's file.
    """
    where = str(PARAMS_FILE) if name is None else str(PROFILES / f"{name}.yaml")
    params: Params = check_params(read_profile(name, root), where)
    check_combinations(params, where)
    return params


def prepare(name: str, root: Path = Path()) -> Path:
    """Make, or bring up to date, the project directory that a profile runs in.

    Data, lock and checkpoints of an earlier run stay, so that it goes on where it ended.

    Args:
        name: of the profile.
        root: of the project.

    Returns:
        runs/NAME below the root; `dvc repro` there runs the profile.

    Raises:
        ParameterError: the profile is missing or wrong, or a file of the user's stands where a link belongs.
        OresmithError: the project is none of DVC's.
    """
    import yaml

    load_profile(name, root)
    where = root / RUNS / name
    where.mkdir(parents=True, exist_ok=True)
    up = Path("..", "..")
    _link(root, where, up)
    params = rebased(read_profile(name, root), up)
    text = yaml.safe_dump(params, sort_keys=False, allow_unicode=True, width=120)
    _write(where / PARAMS_FILE, _HEAD.format(name=name) + text)
    _write(where / "dvc.yaml", (root / "dvc.yaml").read_text("utf-8"))
    lock = root / "dvc.lock"
    if lock.is_file() and not (where / lock.name).exists():
        _write(where / lock.name, lock.read_text("utf-8"))
    _write(where / ".dvc" / "config", dvc_config(root, where))
    return where


def rebased(value: Any, up: Path, key: str = "") -> Any:
    """Parameters as seen from another directory: paths that begin with a dot are led there.

    Args:
        value: raw parameters, or a part of them.
        up: the way from there to the project's root.
        key: of the value.
    """
    if isinstance(value, dict):
        return {name: rebased(inner, up, str(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [rebased(inner, up, key) for inner in value]
    return (up / value).as_posix() if key in PATHS and isinstance(value, str) and value.startswith(".") else value


def dvc_config(root: Path, where: Path) -> str:
    """DVC's configuration of a run: the project's, its cache and remotes, and no git of its own."""
    config = configparser.ConfigParser(interpolation=None)
    config.read([root / ".dvc" / "config", root / ".dvc" / "config.local"], encoding="utf-8")
    for section in config.sections():
        for key in ("url", "credentialpath", "keyfile"):
            place = config[section].get(key)
            if place and "://" not in place and not Path(place).is_absolute():
                config[section][key] = os.path.relpath(root / ".dvc" / place, where / ".dvc")
    for section in ("core", "cache"):
        if not config.has_section(section):
            config.add_section(section)
    config["core"]["no_scm"] = "true"
    config["cache"]["dir"] = os.path.relpath(cache_of(root), where.resolve() / ".dvc")
    lines = []
    for section in config.sections():
        lines += [f"[{section}]", *(f"    {key} = {value}" for key, value in config[section].items())]
    return "\n".join(lines) + "\n"


def cache_of(root: Path) -> Path:
    """The project's cache, wherever a configuration of DVC's may have put it."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root.resolve())) as repo:
            place = str(repo.cache.local.path)  # its files; the runs are remembered beside them
    except DvcException as error:
        raise ParameterError(
            "the project is none of DVC's", where=str(root), got=str(error)[:200], todo="dvc init"
        ) from error
    return Path(place).parents[1]


def _link(root: Path, where: Path, up: Path) -> None:
    """Links to what the run shares with the project; those to what is gone go, too."""
    shared = {path.name for path in root.iterdir() if path.name not in OWN and not path.name.startswith(".")}
    for path in where.iterdir():
        if path.is_symlink() and path.name not in shared:
            path.unlink()
    for name in sorted(shared):
        link = where / name
        if link.is_symlink() and link.readlink() == up / name:
            continue
        if link.exists() and not link.is_symlink():
            raise ParameterError(
                "a link to the project belongs here", where=str(link), todo="move the file away: a run shares its code"
            )
        link.unlink(missing_ok=True)
        link.symlink_to(up / name)


def _write(path: Path, text: str) -> None:
    """Write what differs, so that nothing looks newer than it is."""
    if not path.is_file() or path.read_text("utf-8") != text:
        write_small(path, text.encode("utf-8"))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        raw = read_yaml(path)
    except FileNotFoundError as error:
        raise ParameterError(
            "there is no parameter file", where=str(path), todo="run in the project's root, where params.yaml stands"
        ) from error
    except READ_FAULTS as error:
        raise ParameterError("the parameter file cannot be read", where=str(path), got=str(error)[:300]) from error
    if not isinstance(raw, dict) or not raw:
        raise ParameterError(
            "a parameter file holds namespaces, each with its keys", where=str(path), got=str(raw)[:100] or "nothing"
        )
    return raw
