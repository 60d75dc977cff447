"""Our Philox is numpy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdcourse.deciding.rules import uniform

words = st.integers(0, 2**64 - 1)


@given(words, words, st.integers(0, 5))
def test_same_numbers_as_numpy(seed, round_number, lane):
    counter = np.array([0, round_number, lane, 0], dtype=np.uint64)
    numpys = np.random.Generator(np.random.Philox(key=seed, counter=counter)).random()
    assert uniform(seed, round_number, lane) == numpys
