"""The figures about trajectories that a comparison with the truth states."""

from __future__ import annotations

from oresmith.intervals import Rate
from oresmith.records import Record


class OriginRates(Record, frozen=True):
    """Truly A is what a model emitted itself and nobody forged."""

    precision: Rate
    """Truly A, of the rows labelled A."""
    recall: Rate
    """Labelled A, of the truly A rows whose log holds the text of every model reply."""
    recall_any_text: Rate
    """Labelled A, of all truly A rows."""
    precision_b: Rate
    recall_b: Rate
    """Labelled B, of the rows that are truly B and not forged."""
    unknown: Rate
    """Labelled unknown, of all rows."""
    unknown_full_text: Rate
    """Labelled unknown, of the truly A rows with full text."""
    forgers_labelled_a: Rate
    """Of the forged rows; none may be."""
    full_text: Rate
    """Rows of whose log evidence and truth say the same about the text of the replies."""


class FamilyRates(Record, frozen=True):
    """One miner family."""

    rows: int
    labelled_a: Rate
    labelled_b: Rate
    labelled_unknown: Rate
    labelled_right: Rate
    """As the truth has it."""


class FoundRates(Record, frozen=True):
    """How well something planted is found."""

    recall: Rate
    precision: Rate
    false_positives: Rate
    """Of the rows without it."""


class SecretRates(Record, frozen=True):
    """Planted secrets."""

    recall: Rate
    """Rows in which a secret, or the planted datum by its type, is found, of the rows that hold one."""
    recall_named: Rate
    """Planted types that are named as such in their row, of all planted types of all rows."""
    by_type: dict[str, Rate]
    """Rows in which this very type is named, of the rows that hold it."""
    false_positives: Rate
    """Rows in which a secret is found, of the rows that hold none."""


class OutcomeRates(Record, frozen=True):
    """The pipeline's outcome against the success that was played."""

    agreement: Rate
    """An unknown outcome agrees with nothing."""
    unknown: Rate
    pairs: dict[str, int]
    """"truth/finding" -> rows."""


class AcceptedRates(Record, frozen=True):
    """Rows that the gate accepted although the truth speaks against them, of all accepted rows with a truth."""

    forged: Rate
    subtask: Rate
    """Truly B."""
    with_secret: Rate
    with_injection: Rate
    failed: Rate


class Matched(Record, frozen=True):
    """How the lines of one snapshot's truth met its evidence."""

    rows: int
    """Trajectories of which both speak."""
    without_evidence: int
    without_truth: int
    other_problem: int
    """Rows whose evidence names another problem than the truth: the places may have moved."""
