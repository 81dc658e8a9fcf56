"""The real inputs, where a checkout has them beside it."""

from tests.shared import SHARED, needs_shared

__all__ = ["SHARED", "needs_shared"]
