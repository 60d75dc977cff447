"""The sweep file that `holdcourse sweep --example` prints."""

EXAMPLE = """# Policies against each other on a problem of your own. Run: holdcourse sweep this.toml --out results
name = "pump"            # in tables
rounds = 200             # decisions of a run
rho = [0.5, 1.0, 2.0]    # weight of the service cost against the movement cost
starts = "random"        # or "all", or a list of action numbers, counted from 0
repetitions = 2          # with other trees, draws and noise
seed = 0

[actions]                # one of: values, grid, file (CSV), count
values = [20, 25, 30, 35, 40, 45, 50]    # speeds in Hz
# grid = { speed = [20, 30, 40, 50], valve = [0.2, 0.6, 1.0] }

[movement]               # what a change costs
metric = "cityblock"     # or "euclidean", "chebyshev"; or matrix = [[...], ...], file = "moves.csv",
scale = 0.05             # or function = "my_module:cost" (from, to)
fixed_cost = 0.2         # of every change, however small

[contexts]               # what is seen before each decision; one of: values, file (CSV), count
values = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]    # demand in percent
process = "daily"        # or "iid", "walk", "blocks", "alternating", "recorded" (in the order given)

[costs]                  # of each action in each context; one of: table, file, function, random
noise_std = 0.05         # of a measurement
[costs.random]           # functions drawn at random: how would policies fare on problems like this?
functions = 3
action_lengthscale = 10.0
context_lengthscale = 30.0

[learner]
kernel = "known"         # the one that random costs are drawn from; "auto": fitted as data come in; or a table:
# kernel = { kind = "rbf", action_lengthscale = 10.0, context_lengthscale = 30.0, variance = 1.0 }
width = 2.0              # of the confidence bounds

[[policies]]
name = "recommended"

[[policies]]
name = "gp-md"

[[policies]]
name = "cgp-lcb"

[[policies]]
name = "md-known"

[[policies]]
name = "stationary"

# [[policies]]           # one of your own: called with the problem and its options, returns a holdcourse Policy
# name = "mine"
# source = "my_policy.py:make"    # or "my_package.my_module:make"; an entry point needs no source
# options = { caution = 2.0, learning = true }    # learning: hand it what learners know, as keyword arguments
"""
