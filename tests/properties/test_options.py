"""Options that are no sensible number are refused where they are given, by name, and not found in a decision."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

import holdcourse as hc
from holdcourse.deciding.policy import Learning
from holdcourse.errors import InvalidInput
from holdcourse.learning.kernels import SERIALISABLE

PROBLEM = hc.Problem([0.0, 0.5, 1.0])
KERNEL = hc.Kernel(sk.RBF(0.5), sk.RBF(0.2))
NAN = math.nan
# As an option takes it where a bare NaN would be refused for its shape.
SHAPED = {"contexts": [0.1, NAN], "context_bounds": [[0.0, NAN]], "history": [(0, 0.1, NAN)]}
MAKERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "gp_md": (hc.gp_md, {"problem": PROBLEM, "kernel": KERNEL}),
    "cgp_lcb": (hc.cgp_lcb, {"problem": PROBLEM, "kernel": KERNEL}),
    "proximal_lcb": (hc.proximal_lcb, {"problem": PROBLEM, "kernel": KERNEL}),
    "planner": (hc.planner, {"problem": PROBLEM, "kernel": KERNEL}),
    "recommended": (hc.recommended, {"problem": PROBLEM, "kernel": KERNEL}),
    "md_known": (hc.md_known, {"problem": PROBLEM}),
    "minc_known": (hc.minc_known, {"problem": PROBLEM}),
    "stationary": (hc.stationary, {"problem": PROBLEM}),
    "planner_known": (hc.planner_known, {"problem": PROBLEM}),
    "posterior": (hc.posterior, {"problem": PROBLEM, "kernel": KERNEL}),
    "posterior, auto": (hc.posterior, {"problem": PROBLEM, "kernel": "auto"}),
    "Kernel": (hc.Kernel, {"action": sk.RBF(1.0)}),
    "TheoryWidth": (hc.TheoryWidth, {"norm_bound": 1.0}),
    "OutlierGuard": (hc.OutlierGuard, {}),
    "Problem": (hc.Problem, {"actions": [0.0, 1.0]}),
    "frt_tree": (hc.frt_tree, {"problem": PROBLEM, "seed": 0}),
}


def options_of(name: str) -> list[str]:
    parameters = inspect.signature(MAKERS[name][0]).parameters
    named = [option for option, p in parameters.items() if p.kind is not p.VAR_KEYWORD and option != "problem"]
    return sorted({*named, *(Learning.__annotations__ if len(named) < len(parameters) - 1 else ())})


ALL = [(name, option) for name in MAKERS for option in options_of(name)]


@pytest.mark.parametrize(("name", "option"), ALL, ids=[f"{name}.{option}" for name, option in ALL])
def test_every_option_refuses_nan_and_is_named(name: str, option: str) -> None:
    make, given = MAKERS[name]
    for value in (NAN, np.float64(NAN), SHAPED.get(option, NAN)):
        with pytest.raises(InvalidInput) as caught:
            make(**(given | {option: value}))
        # "the measurements of the history", "the actions", "an index of an action": the words of the option are there.
        words = {"history": "histor|measurement", "contexts": "context", "actions": "action"}
        words |= {"context_bounds": "context_bounds|box|bounds", "labels": "label"}
        assert any(word in str(caught.value) for word in words.get(option, option).split("|")), str(caught.value)


@given(
    option=st.sampled_from(["noise_std", "prior_mean", "width", "forgetting"]),
    value=st.one_of(st.just(NAN), st.just(math.inf), st.just(-math.inf)),
    kernel=st.sampled_from([KERNEL, "auto", KERNEL + KERNEL]),
)
def test_numbers_of_learners_must_be_finite(option: str, value: float, kernel: Any) -> None:
    with pytest.raises(InvalidInput, match=option):
        hc.gp_md(PROBLEM, kernel=kernel, **{option: value})


PARTS: dict[str, Callable[[Any], Any]] = {
    "length_scale of RBF": lambda x: sk.RBF(x),
    "length_scale of RBF ": lambda x: sk.RBF([0.1, x]),
    "length_scale of Matern": lambda x: sk.Matern(x),
    "nu of Matern": lambda x: sk.Matern(1.0, nu=x),
    "alpha of RationalQuadratic": lambda x: sk.RationalQuadratic(1.0, x),
    "length_scale of RationalQuadratic": lambda x: sk.RationalQuadratic(x),
    "periodicity of ExpSineSquared": lambda x: sk.ExpSineSquared(1.0, x),
    "length_scale of ExpSineSquared": lambda x: sk.ExpSineSquared(x),
    "constant_value of ConstantKernel": lambda x: sk.ConstantKernel(x) * sk.RBF(1.0) + sk.Matern(1.0),
    "sigma_0 of DotProduct": lambda x: sk.DotProduct(x),
    "exponent of Exponentiation": lambda x: sk.Exponentiation(sk.RBF(1.0), x),
    "length_scale_bounds of RBF": lambda x: sk.RBF(1.0, (1e-5, x)),
}
NONSENSE = [NAN, math.inf, -math.inf, -1.0, 0.0, "much", None, [], [[1.0]]]
MEANT = [("nu of Matern", math.inf), ("sigma_0 of DotProduct", 0.0)]


@pytest.mark.parametrize("place", ["action", "context"])
@pytest.mark.parametrize("part", PARTS)
def test_parameters_of_scikit_learn_are_checked_by_us(part: str, place: str) -> None:
    for value in NONSENSE:
        if (part, value) in MEANT:
            continue
        try:
            made = PARTS[part](value)
        except (TypeError, ValueError):  # scikit-learn or Python refuses it already
            continue
        with pytest.raises(InvalidInput, match=f"{part.strip()} in {place} must be"):
            hc.Kernel(**({"action": sk.RBF(1.0)} | {place: made}))
    for known, value in MEANT:
        hc.Kernel(**({"action": sk.RBF(1.0)} | {place: PARTS[known](value)}))


def written(kind: str, **parameters: Any) -> str:
    part = {"kernel": kind, "with": parameters}
    return json.dumps({"parts": [{"action": part, "context": None, "variance": 1.0}]})


@pytest.mark.parametrize(
    "text",
    [
        written("RBF", length_scale={"float": "nan"}, length_scale_bounds="fixed"),
        written("RBF", length_scale=NAN, length_scale_bounds="fixed"),
        written("RBF", length_scale={"array": [1.0, NAN]}, length_scale_bounds="fixed"),
        written("RBF", length_scale="wide", length_scale_bounds="fixed"),
        written("Sum", k1=1.0, k2=2.0),
        written("Product", k1={"kernel": "RBF", "with": {}}, k2=NAN),
        written("Exponentiation", kernel=3, exponent=2),
        written("RBF", length_scale=1.0).replace('"variance": 1.0', '"variance": NaN'),
        written("RBF", length_scale=1.0).replace('"variance": 1.0', '"variance": 1.0, "action_scale": NaN'),
        "[" * 50_000,
        '{"parts": [{"action": ' + '{"tuple": [' * 10_000 + "]}" * 10_000 + "}]}",
        '{"parts": 3}',
        '{"parts": []}',
    ],
)
def test_json_from_strangers_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        hc.Kernel.from_json(text)


@given(
    kind=st.sampled_from(SERIALISABLE),
    names=st.dictionaries(
        st.sampled_from(["length_scale", "nu", "alpha", "k1", "k2", "kernel", "exponent", "constant_value", "sigma_0"]),
        st.one_of(st.none(), st.text(max_size=3), st.floats(), st.lists(st.floats(), max_size=3), st.booleans()),
    ),
)
def test_a_kernel_from_any_json_is_refused_or_gives_finite_numbers(kind: str, names: dict[str, Any]) -> None:
    try:
        kernel = hc.Kernel.from_json(written(kind, **names))
        mean, std = hc.posterior(PROBLEM, kernel, method="exact").predict(0.3)
    except InvalidInput:
        return
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def test_a_variance_beyond_all_numbers_is_refused() -> None:
    huge = hc.Kernel(sk.ConstantKernel(1e200) * sk.ConstantKernel(1e200))
    with pytest.raises(InvalidInput, match="prior variance of inf"), np.errstate(over="ignore"):
        hc.posterior(PROBLEM, huge)
