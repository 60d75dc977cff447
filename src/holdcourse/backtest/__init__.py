"""Backtests: what a policy would have made of data from the past, and whether that is an answer.

`verdict` is what judging wind and plants has in common; `plant` judges policies on a plant's own readings. Wind is
judged in `holdcourse.wind`.
"""
