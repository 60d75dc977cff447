"""Worlds to try policies in: everything about them is known, so every policy can be compared with the optimum.

Examples
--------
>>> import holdcourse as hc
>>> hc.worlds.context_sequence([0.1, 0.5, 0.9], "alternating", rounds=4, seed=1).ravel().tolist()
[0.1, 0.5, 0.1, 0.5]
"""

from __future__ import annotations

from holdcourse.worlds.synthetic import CONTEXT_PROCESSES, SyntheticWorld, context_sequence

__all__ = ["CONTEXT_PROCESSES", "SyntheticWorld", "context_sequence"]
