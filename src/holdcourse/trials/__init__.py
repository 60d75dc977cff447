"""Did it pay? Randomised trials of a policy against a baseline: the plan, the table, the answer."""
