"""Publishes in a child for every order on standard input, so that it can be killed; the libraries are loaded once.

An order is one JSON line: bundle, endpoint, token, pid (file for the child's process id), options. The answer is one
JSON line: what was said (`ok`, `killed`, or the refusal), which operations were told, where the release stands.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import huggingface_hub.hf_api  # noqa: F401
import msgspec
import pyarrow.parquet  # noqa: F401
import yaml  # noqa: F401

from oresmith.errors import OresmithError
from oresmith.release.manifest import Published, read_release
from oresmith.release.publish import publishing, yanking
from oresmith.release.publish.target import Target
from tests.release.publish.small import HASTY

_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.02))


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            said = _carry_out(order)
            with os.fdopen(write, "w") as pipe:
                json.dump(said, pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        print('{"said": "killed"}' if os.WIFSIGNALED(status) else said or '{"said": "died"}', flush=True)


def _carry_out(order: dict[str, Any]) -> dict[str, Any]:
    Path(order["pid"]).write_text(str(os.getpid()))
    bundle, told = Path(order["bundle"]), []
    published = None
    try:
        release = read_release(bundle)
        patience = dataclasses.replace(HASTY, timeout=order.get("timeout", HASTY.timeout))
        target = Target(order["endpoint"], order["token"], patience=patience)
        if order.get("load") != "real":
            publishing.load_back = _LOADS[order.get("load", "none")]
        if order.get("yank"):
            yanking.yank(release, order["yank"], target, dry_run=order.get("dry_run", False), tell=told.append)
        elif order.get("unyank"):
            yanking.unyank(release, target, dry_run=order.get("dry_run", False), tell=told.append)
        else:
            earlier = msgspec.convert(order["earlier"], Published) if order.get("earlier") else None
            published = publishing.publish(
                bundle, release, target, earlier=earlier, dry_run=order.get("dry_run", False), tell=told.append
            )
        said = "ok"
    except OresmithError as error:
        said = str(error)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    return {"said": said, "told": told, "published": msgspec.to_builtins(published)}


def _refuse(*_: object) -> None:
    raise OresmithError("the release does not load back by its tag")


_LOADS: dict[str, Any] = {"none": lambda *_: None, "fails": _refuse}


if __name__ == "__main__":
    main()
