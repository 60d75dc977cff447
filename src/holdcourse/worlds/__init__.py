"""Worlds to try policies in: everything about them is known, so every policy can be held against the optimum."""

from holdcourse.worlds.contexts import CONTEXT_PROCESSES, context_sequence
from holdcourse.worlds.synthetic import SyntheticWorld

__all__ = ["CONTEXT_PROCESSES", "SyntheticWorld", "context_sequence"]
