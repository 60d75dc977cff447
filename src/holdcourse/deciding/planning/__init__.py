"""Planning on a learned chain of contexts, or ahead in time: the rules, and the policies that use them."""

from __future__ import annotations

from holdcourse.deciding.planning.lookahead import Lookahead
from holdcourse.deciding.planning.plan import Plan, planner, planner_known

__all__ = ["Lookahead", "Plan", "planner", "planner_known"]
