"""The conformance suite: run our invariants on your own parts.

Each function returns nothing and raises `AssertionError` with the numbers at fault.
"""

from holdcourse.testing.cost_models import check_cost_model
from holdcourse.testing.policies import check_policy
from holdcourse.testing.trees import check_tree

__all__ = ["check_cost_model", "check_policy", "check_tree"]
