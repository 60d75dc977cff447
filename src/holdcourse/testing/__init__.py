"""The conformance suite: run our invariants on your own parts.

Each function returns nothing and raises `AssertionError` with the numbers at fault.

Examples
--------
>>> import holdcourse as hc
>>> problem = hc.Problem([0.0, 0.5, 1.0])
>>> hc.testing.check_tree(hc.frt_tree(problem), problem)
>>> hc.testing.check_policy(lambda: hc.md_known(problem), contexts=[0.1, 0.5, 0.9, 0.3] * 3)
"""

from holdcourse.testing.parts import check_cost_model, check_tree
from holdcourse.testing.policies import check_policy

__all__ = ["check_cost_model", "check_policy", "check_tree"]
