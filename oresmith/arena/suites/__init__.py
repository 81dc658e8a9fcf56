"""Suites of problems over any catalogue behind a search: definition, difficulty, makers, variants, checks."""

from oresmith.arena.suites.check import SuiteCheck, check_suite
from oresmith.arena.suites.definition import SuiteDefinition, base_path, definition_of, read_definition
from oresmith.arena.suites.levels import LEVELS, Level
from oresmith.arena.suites.make import Suite, make_suite, suite_jsonl, truth_rows
from oresmith.arena.suites.plan import Plan, SuiteProblem
from oresmith.arena.suites.report import collisions
from oresmith.arena.suites.wishes import Constraint, Wish

__all__ = [
    "LEVELS",
    "Constraint",
    "Level",
    "Plan",
    "Suite",
    "SuiteCheck",
    "SuiteDefinition",
    "SuiteProblem",
    "Wish",
    "base_path",
    "check_suite",
    "collisions",
    "definition_of",
    "make_suite",
    "read_definition",
    "suite_jsonl",
    "truth_rows",
]
