"""Run a pipeline of datatrove steps over shards: in this process, in worker processes, or on Ray; same bytes each way.

The steps are datatrove's, its executors are not used: the local one waits for ever when the system kills a worker and
logs the values of variables with a traceback; the one for Ray only logs that a task failed, starts an actor a task
(seconds each), and forks inside it, where Ray's handler of SIGTERM can keep the child, and so the run, from ending.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from oresmith.blocks.job import Job, StepStats
from oresmith.blocks.lifeline import end_with
from oresmith.errors import OresmithError, ParameterError

_LINES = 10
"""About how many lines report the progress of a run that has no terminal."""
_RAY_STORE_BYTES = 128 * 1024 * 1024


def run_pipeline(
    steps: Sequence[Any],
    tasks: int,
    *,
    executor: Literal["local", "ray"] = "local",
    workers: int = 1,
    scratch: Path,
) -> list[StepStats]:
    """Run the steps once for each of `tasks` shards and return what each step did.

    Every run takes a new folder below `scratch`, so nothing of an earlier one is ever skipped over. The first shard
    that fails ends the run, and its error is raised here as it was there.

    Args:
        steps: datatrove steps, the reader first. Each shard gets copies; objects they share stay shared.
        tasks: number of shards.
        executor: "local", or "ray": a cluster if RAY_ADDRESS is set (steps and paths must be readable on its nodes),
            else one that is started here and stopped at the end.
        workers: shards that run at the same time; one local worker is this process.
        scratch: directory for logs and statistics, never part of an output.

    Raises:
        OresmithError: of a step; or a worker was killed; or Ray could not be started.
        ParameterError: no such executor, or a number below 1.
    """
    if executor not in ("local", "ray"):
        raise ParameterError("no such executor", where="executor", expected="local or ray", got=str(executor))
    if workers < 1 or tasks < 1:
        raise ParameterError("there must be at least one", where="workers, tasks", got=f"{workers}, {tasks}")
    scratch.mkdir(parents=True, exist_ok=True)
    job = Job(steps, tasks, Path(tempfile.mkdtemp(prefix="run-", dir=scratch)).absolute())
    with _progress(tasks) as show:
        if executor == "ray":
            _run_on_ray(job, min(workers, tasks), show)
        elif workers == 1 or tasks == 1:
            for shard in range(tasks):
                job.run(shard)
                show(shard + 1)
        else:
            _run_in_workers(job, min(workers, tasks), show)
    return job.statistics()


def _run_in_workers(job: Job, workers: int, show: Callable[[int], None]) -> None:
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=job.begin_worker)
    try:
        futures = [pool.submit(job.run, shard) for shard in range(job.shards)]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            show(done)
    except BaseException as error:
        # What the others would still write is thrown away: do not wait for it.
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        _raise_failure(job, error)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _raise_failure(job: Job, error: BaseException) -> None:
    if failure := job.failure():
        raise failure from error
    if isinstance(error, BrokenProcessPool):
        raise _killed() from error


def _killed() -> OresmithError:
    return OresmithError(
        "a worker process was killed",
        got="no error of its own: most likely the system ran out of memory",
        todo="use fewer workers or smaller shards, and run the same command again",
    )


def _run_on_ray(job: Job, workers: int, show: Callable[[int], None]) -> None:
    with _ray(workers) as ray:
        # A failing shard would fail again: the input is the same.
        shard_task = ray.remote(num_cpus=1, max_retries=0)(_ray_shard)
        shards, done = iter(range(job.shards)), 0
        running = [shard_task.remote(job, shard) for shard in islice(shards, workers)]
        while running:
            finished, running = ray.wait(running, num_returns=1)
            try:
                ray.get(finished)
            except ray.exceptions.RayError as error:
                raise job.failure() or _killed() from error
            done += 1
            show(done)
            running += [shard_task.remote(job, shard) for shard in islice(shards, 1)]


def _ray_shard(job: Job, shard: int) -> None:
    end_with(job.stage)
    job.run(shard)


@contextmanager
def _ray(workers: int) -> Iterator[Any]:
    """A Ray session: the caller's if there is one, the cluster that RAY_ADDRESS names, or a local one for this run."""
    # Ray reports usage to its makers, and writes a token into the home directory, unless told not to before its import.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    import ray

    if ray.is_initialized():
        yield ray
        return
    folder = tempfile.mkdtemp(prefix="ore-ray-")  # not in scratch: the paths of its sockets may not be long
    local = {
        "include_dashboard": False,
        "num_cpus": workers,
        "object_store_memory": _RAY_STORE_BYTES,
        "_temp_dir": folder,
    }
    try:
        ray.init(
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": {"PYTHONPATH": _python_path()}},
            **({} if "RAY_ADDRESS" in os.environ else local),
        )
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise OresmithError(
            "Ray could not be started",
            got=f"{type(error).__name__}: {error}"[:500],
            todo="set the parameter executor to local, or mend the Ray installation",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _python_path() -> str:
    """Where Ray's workers find this package and the modules beside the running script."""
    places = [
        str(Path(__file__).parents[2]),
        str(Path(sys.path[0] or ".").absolute()),
        os.environ.get("PYTHONPATH", ""),
    ]
    return os.pathsep.join(dict.fromkeys(place for place in places if place))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar of finished shards on a terminal, a few lines elsewhere; on standard error."""
    if not sys.stderr.isatty():
        shown = 0

        def line(done: int) -> None:
            nonlocal shown
            if total > 1 and (done == total or done - shown >= max(1, total // _LINES)) and done > shown:
                shown = done
                with suppress(OSError):  # nobody has to be listening
                    print(f"shards {done}/{total}", file=sys.stderr, flush=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task("shards", total=total)
        yield lambda done: bar.update(row, completed=done)
