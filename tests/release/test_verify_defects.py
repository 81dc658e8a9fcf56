"""Every defect of the published release, planted in a copy of a sound one, is stopped by a message that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.release.verify.checks import verify
from oresmith.release.verify.found import Report
from oresmith.release.verify.source import open_source
from tests.release.defects import DEFECTS, Defect, has_no_version
from tests.release.verify_world import bundle, released

__all__ = ["bundle", "released"]


def verified(folder: Path) -> Report:
    with open_source(str(folder)) as opened:
        return verify(opened)


def test_the_release_that_defects_are_planted_in_is_sound(released: Path):
    report = verified(released)
    assert report.held, [finding.sentence() for result in report.results for finding in result.findings]
    assert {result.name for result in report.results if result.state == "not computed"} == {"signature"}


def test_every_point_of_the_list_has_a_defect():
    assert {defect.number for defect in DEFECTS} == set(range(1, 9))


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.number} {defect.name}")
def test_a_defect_is_stopped_by_the_check_that_names_it(defect: Defect, bundle: Path):
    if defect.plant is has_no_version:
        defect.plant(bundle)  # whose lists would be made anew
    else:
        defect.planted(bundle)
    report = verified(bundle)
    told = [finding for result in report.results if result.name == defect.check for finding in result.findings]
    named = [finding for finding in told if defect.says in finding.sentence()]
    assert not report.held
    assert named, [finding.sentence() for finding in told]
    assert all(finding.file for finding in named)
