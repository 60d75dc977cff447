"""Policies: a rule times a cost model, and the ones of the paper by name.

================  ====================================  ============================================
policy            cost vector it sees                   rule
================  ====================================  ============================================
`gp_md`           lower bounds of the Gaussian process  mirror descent on a tree, coupling
`cgp_lcb`         lower bounds                          the cheapest
`proximal_lcb`    lower bounds                          the cheapest including the way there
`md_known`        true costs                            mirror descent on a tree, coupling
`minc_known`      true costs                            the cheapest
`stationary`      none                                  stay
`fixed`           none                                  one action, chosen on history
================  ====================================  ============================================

A `Policy` is frozen and can be run many times. A `Pilot` is a policy at work, driven by `simulate` or a `Controller`.
"""

from __future__ import annotations

from holdcourse.policy.definition import Policy
from holdcourse.policy.learning import Learning, lower_bound
from holdcourse.policy.named import (
    cgp_lcb,
    fixed,
    fixed_at,
    gp_md,
    md_known,
    minc_known,
    proximal_lcb,
    stationary,
)
from holdcourse.policy.on_tree import OnTree

__all__ = [
    "Learning",
    "OnTree",
    "Policy",
    "cgp_lcb",
    "fixed",
    "fixed_at",
    "gp_md",
    "lower_bound",
    "md_known",
    "minc_known",
    "proximal_lcb",
    "stationary",
]
