"""Planning on a learned chain of contexts, or ahead in time: the rules, and the policies that use them."""

from holdcourse.planning.lookahead import Lookahead
from holdcourse.planning.outlook import Outlook
from holdcourse.planning.plan import Plan
from holdcourse.planning.policies import planner, planner_known

__all__ = ["Lookahead", "Outlook", "Plan", "planner", "planner_known"]
