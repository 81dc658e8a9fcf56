"""training.json and its neighbours: what is written is read back, and what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.training.energy import Energy
from oresmith.training.trained import Training, ends_of, read_training, write_curve, write_training


def test_a_training_is_read_back_as_it_was_written(tmp_path: Path):
    training = Training(step="kto", name="kto", seed=0, steps=3, loss={"first": 0.5}, extra={"kl": [0.1]})
    write_training(tmp_path, training)
    assert read_training(tmp_path) == training


def test_no_file_is_no_training_and_a_damaged_one_is_refused(tmp_path: Path):
    assert read_training(tmp_path) is None
    for content in (b"", b"[]", b'{"step": 1, "name": "x"}', b'{"name": "x"}'):
        (tmp_path / "training.json").write_bytes(content)
        with pytest.raises(OresmithError, match="cannot be read"):
            read_training(tmp_path)


def test_a_curve_has_all_columns_of_all_steps_and_empty_cells_where_a_step_lacks_one(tmp_path: Path):
    write_curve(tmp_path, [{"step": 1, "loss": 0.25, "learning_rate": 1e-5}, {"step": 2, "kl": 2.0, "loss": 0.125}])
    assert (tmp_path / "curve.csv").read_text() == "step,loss,learning_rate,kl\n1,0.25,1e-05,\n2,0.125,,2\n"


def test_a_value_that_is_no_number_stays_visible_in_the_curve(tmp_path: Path):
    write_curve(tmp_path, [{"step": 1, "loss": float("nan"), "reward": float("inf")}])
    assert (tmp_path / "curve.csv").read_text().splitlines()[1] == "1,nan,inf"


@pytest.mark.parametrize(("count", "first", "last"), [(1, 0, 0), (9, 0, 8), (20, 0.5, 18.5), (0, None, None)])
def test_the_ends_of_a_curve_are_means_over_a_tenth_of_it(count: int, first: float | None, last: float | None):
    found = ends_of([{"step": place + 1, "loss": float(place)} for place in range(count)])
    assert (found.get("first"), found.get("last")) == (first, last)


def test_energy_is_of_whole_packages_across_an_overrun_and_left_out_where_it_cannot_be_read(tmp_path: Path):
    def state(zone: str, counter: str) -> None:
        (tmp_path / zone).mkdir(exist_ok=True)
        (tmp_path / zone / "energy_uj").write_text(counter)
        (tmp_path / zone / "max_energy_range_uj").write_text("9999999")

    for zone, counter in (("intel-rapl:0", "9000000"), ("intel-rapl:1", "1000000"), ("intel-rapl:0:0", "5")):
        state(zone, counter)
    energy = Energy(tmp_path)
    state("intel-rapl:0", "1500000")
    state("intel-rapl:1", "4000000")
    state("intel-rapl:0:0", "777777")
    assert energy.spent()["cpu_joules"] == 5.5
    state("intel-rapl:1", "denied")
    assert energy.spent()["cpu_joules"] == 2.5
    assert "cpu_joules" not in Energy(tmp_path / "nothing").spent()
