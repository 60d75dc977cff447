"""Planning on a learned chain of contexts: the rule, what it remembers, and the policies that use it."""

from holdcourse.planning.plan import Plan
from holdcourse.planning.policies import planner, planner_known

__all__ = ["Plan", "planner", "planner_known"]
