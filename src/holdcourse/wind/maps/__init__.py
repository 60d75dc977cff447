"""Where would altitude control pay? The wind planner flown at every point of a grid."""
