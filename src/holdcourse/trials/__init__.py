"""Did it pay? Randomised trials of a policy against a baseline: the plan, the table, the answer.

Examples
--------
>>> import holdcourse as hc
>>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
>>> contexts = world.context_sequence("iid", rounds=400)
>>> on_trial = hc.trial(hc.gp_md(world.problem), block=2)
>>> hc.trials.answer(hc.trials.simulate_trial(on_trial, world, contexts)).pairs
100
"""

from holdcourse.trials.answer import Answer, CarryOver, Looks, Measured, answer
from holdcourse.trials.blocks import Blocks, joined
from holdcourse.trials.plan import Design, Paths, TrialPlan, plan_of, plan_trial, run_both
from holdcourse.trials.record import RecordedTrial, read_trial
from holdcourse.trials.simulated import simulate_trial

__all__ = [
    "Answer",
    "Blocks",
    "CarryOver",
    "Design",
    "Looks",
    "Measured",
    "Paths",
    "RecordedTrial",
    "TrialPlan",
    "answer",
    "joined",
    "plan_of",
    "plan_trial",
    "read_trial",
    "run_both",
    "simulate_trial",
]
