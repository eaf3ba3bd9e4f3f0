"""V-trace's scan: numbers worked out by hand, the definition, generalized advantages, the twin."""

import needs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from pufferlib import native

IMPLEMENTATIONS = [pytest.param(native.vtrace_scan_numpy, id="numpy")]
if native.available:
    IMPLEMENTATIONS.append(pytest.param(native.vtrace_scan, id="native"))
FLOATS = ("rewards", "values", "next_values", "ratios")
FLAGS = ("terminals", "dones", "valid")


def run(scan, **overrides):
    """Advantages and errors; by default rewards 1, values 0, gamma = lam = 1, on-policy."""
    shape = overrides.get("rewards", np.empty((1, 3))).shape
    arguments = {name: np.zeros(shape, np.float32) for name in FLOATS}
    arguments |= {name: np.zeros(shape, bool) for name in FLAGS}
    arguments["rewards"] += 1
    arguments["ratios"] += 1
    arguments["valid"] |= True
    arguments |= {"gamma": 1.0, "lam": 1.0, "rho_clip": 1.0, "c_clip": 1.0}
    out, errors = np.full((2, *shape), np.nan, np.float32)
    assert scan(**(arguments | overrides), out=out, errors=errors) is None
    return out, errors


def row(*values, dtype=np.float32):
    return np.array([values], dtype)


@pytest.mark.parametrize("scan", IMPLEMENTATIONS)
class TestHandMadeNumbers:
    def test_on_policy_rewards_add_up(self, scan):
        out, errors = run(scan)
        assert out.tolist() == errors.tolist() == [[3, 2, 1]]

    def test_unlikely_actions_pass_less_on_and_likely_ones_no_more(self, scan):
        # E_2 = min(1, 4) = 1;  E_1 = .5 + .5 * 1 = 1;  E_0 = .25 + .25 * 1 = .5
        # A_2 = 1;  A_1 = 1 + E_2 = 2;  A_0 = 1 + E_1 = 2
        out, errors = run(scan, ratios=row(0.25, 0.5, 4))
        assert errors.tolist() == [[0.5, 1, 1]]
        assert out.tolist() == [[2, 2, 1]]

    def test_the_clips_bound_apart(self, scan):
        # rho = 2, c = .5:  E_2 = 2;  E_1 = 2 + .5 * 2 = 3;  E_0 = 2 + .5 * 3 = 3.5
        _, errors = run(scan, ratios=row(4, 4, 4), rho_clip=2.0, c_clip=0.5)
        assert errors.tolist() == [[3.5, 3, 2]]

    def test_nothing_crosses_an_end_or_a_gap(self, scan):
        ended, gap = row(0, 1, 0, 0, dtype=bool), row(1, 1, 0, 1, dtype=bool)
        nan = np.nan
        out, errors = run(
            scan,
            rewards=row(1, 1, nan, 1),
            next_values=row(0, nan, nan, 10),
            terminals=ended,
            dones=ended,
            valid=gap,
            ratios=row(1, 1, nan, 1),
        )
        assert out.tolist() == errors.tolist() == [[2, 1, 0, 11]]


@st.composite
def any_arguments(draw, valid=None):
    shape = draw(nps.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6))
    elements = st.floats(-100, 100, width=32)
    arguments = {name: draw(nps.arrays(np.float32, shape, elements=elements)) for name in FLOATS}
    arguments["ratios"] = draw(nps.arrays(np.float32, shape, elements=st.floats(0, 4, width=32)))
    arguments |= {name: draw(nps.arrays(np.bool_, shape)) for name in FLAGS}
    for name in ("gamma", "lam"):
        arguments[name] = draw(st.floats(0, 1))
    for name in ("rho_clip", "c_clip"):
        arguments[name] = draw(st.floats(0.5, 3))
    return arguments


@needs.compiled_core
@settings(max_examples=100, deadline=None)
@given(any_arguments())
def test_native_and_numpy_agree_bit_for_bit(arguments):
    compiled, twin = (
        run(scan, **arguments) for scan in (native.vtrace_scan, native.vtrace_scan_numpy)
    )
    np.testing.assert_array_equal(compiled, twin)


@settings(max_examples=100, deadline=None)
@given(any_arguments())
def test_on_policy_it_is_generalized_advantage_estimation(arguments):
    arguments |= {"ratios": np.ones_like(arguments["ratios"]), "rho_clip": 1.0, "c_clip": 1.5}
    out, errors = run(native.vtrace_scan, **arguments)
    names = ("rewards", "values", "next_values", "terminals", "dones", "valid", "gamma", "lam")
    expected = np.empty_like(out)
    native.advantage_scan(*(arguments[name] for name in names), expected)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(errors, expected)


def test_it_is_the_sum_of_products_of_the_paper():
    # v_s = V_s + sum_{t >= s} gamma^{t-s} (prod_{i=s}^{t-1} c_i) rho_t delta_t, lambda within c
    rng = np.random.default_rng(3)
    rewards, values, next_values = rng.normal(size=(3, 1, 7)).astype(np.float32)
    ratios = rng.uniform(0.2, 2, size=(1, 7)).astype(np.float32)
    gamma, lam = 0.9, 0.8
    _, errors = run(
        native.vtrace_scan,
        rewards=rewards,
        values=values,
        next_values=next_values,
        ratios=ratios,
        gamma=gamma,
        lam=lam,
        rho_clip=1.2,
        c_clip=0.9,
    )
    deltas = (rewards + gamma * next_values - values)[0]
    rho, c = np.minimum(1.2, ratios)[0], lam * np.minimum(0.9, ratios)[0]
    expected = [
        sum(gamma ** (t - s) * np.prod(c[s:t]) * rho[t] * deltas[t] for t in range(s, 7))
        for s in range(7)
    ]
    np.testing.assert_allclose(errors[0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["ratios", "out", "errors"])
def test_what_would_be_converted_is_refused(name):
    wide = {name: np.ones((1, 3))}
    out, errors = (np.zeros((1, 3), np.float32) for _ in range(2))
    arguments = {key: np.zeros((1, 3), np.float32) for key in FLOATS}
    arguments |= {key: np.zeros((1, 3), bool) for key in FLAGS}
    arguments |= {"gamma": 1.0, "lam": 1.0, "rho_clip": 1.0, "c_clip": 1.0}
    with pytest.raises(TypeError, match=f"{name}: expected .*float32, got float64"):
        native.vtrace_scan(**(arguments | {"out": out, "errors": errors} | wide))
