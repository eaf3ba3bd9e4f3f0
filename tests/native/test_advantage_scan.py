"""The native core: numbers worked out by hand, its NumPy twin, refusals, staleness."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from pufferlib import native

NATIVE_DIR = Path(native.__file__).parent

IMPLEMENTATIONS = [pytest.param(native.advantage_scan_numpy, id="numpy")]
if native.available:
    IMPLEMENTATIONS.append(pytest.param(native.advantage_scan, id="native"))


def scan_arguments(segments=1, horizon=4, **overrides):
    """Rewards 1, values 0, everything valid, no episode ends, bootstrap from 10 at the end."""
    shape = (segments, horizon)
    next_values = np.zeros(shape, np.float32)
    next_values[:, -1] = 10
    arguments = {
        "rewards": np.ones(shape, np.float32),
        "values": np.zeros(shape, np.float32),
        "next_values": next_values,
        "terminals": np.zeros(shape, bool),
        "dones": np.zeros(shape, bool),
        "valid": np.ones(shape, bool),
        "gamma": 1.0,
        "lam": 1.0,
        "out": np.full(shape, np.nan, np.float32),
    }
    return {**arguments, **overrides}


def flags(*values):
    return np.array([values], bool)


def run(implementation, **overrides):
    arguments = scan_arguments(**overrides)
    assert implementation(**arguments) is None
    return arguments["out"]


@pytest.mark.smoke
@pytest.mark.parametrize("scan", IMPLEMENTATIONS)
class TestHandMadeNumbers:
    def test_rewards_add_up_from_the_bootstrap(self, scan):
        assert run(scan).tolist() == [[14, 13, 12, 11]]

    def test_discount_and_lambda(self, scan):
        # delta = [1, 1, 1, 1 + 0.5 * 10]; A_t = delta_t + 0.25 * A_{t+1}
        out = run(scan, gamma=0.5, lam=0.5)
        assert out.tolist() == [[1.40625, 1.625, 2.5, 6]]

    def test_values_are_the_baseline(self, scan):
        # With lam 0 the advantage is the one-step error r + gamma * V' - V.
        out = run(
            scan,
            gamma=0.5,
            lam=0.0,
            values=np.array([[4, 6, 8, 10]], np.float32),
            next_values=np.array([[6, 8, 10, 12]], np.float32),
        )
        assert out.tolist() == [[0, -1, -2, -3]]

    def test_termination_does_not_bootstrap(self, scan):
        ended = flags(0, 0, 0, 1)
        assert run(scan, terminals=ended, dones=ended).tolist() == [[4, 3, 2, 1]]

    def test_truncation_bootstraps_but_stops_the_sum(self, scan):
        next_values = np.array([[0, 100, 0, 10]], np.float32)
        out = run(scan, next_values=next_values, dones=flags(0, 1, 0, 0))
        assert out.tolist() == [[102, 101, 12, 11]]

    def test_invalid_steps_are_zero_and_pass_nothing_on(self, scan):
        rewards = np.array([[1, 1, np.nan, 1]], np.float32)
        out = run(scan, rewards=rewards, dones=flags(0, 1, 0, 0), valid=flags(1, 1, 0, 1))
        assert out.tolist() == [[2, 1, 0, 11]]

    def test_masked_values_may_be_nan(self, scan):
        ended = flags(0, 0, 0, 1)
        next_values = np.array([[0, 0, 0, np.nan]], np.float32)
        out = run(scan, next_values=next_values, terminals=ended, dones=ended)
        assert out.tolist() == [[4, 3, 2, 1]]

    def test_rows_are_independent(self, scan):
        rewards = np.ones((3, 4), np.float32)
        rewards[1] = 1e9
        out = run(scan, segments=3, rewards=rewards)
        assert out[0].tolist() == out[2].tolist() == [14, 13, 12, 11]

    def test_no_steps_and_no_segments(self, scan):
        assert run(scan, segments=0).shape == (0, 4)
        empty = {
            name: np.zeros((2, 0), array.dtype)
            for name, array in scan_arguments().items()
            if isinstance(array, np.ndarray)
        }
        assert run(scan, **empty).shape == (2, 0)


@st.composite
def any_arguments(draw):
    shape = draw(nps.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9))
    floats = nps.arrays(np.float32, shape, elements=st.floats(-1e6, 1e6, width=32))
    bools = nps.arrays(np.bool_, shape)
    names = {"rewards": floats, "values": floats, "next_values": floats}
    names |= {"terminals": bools, "dones": bools, "valid": bools}
    arguments = {name: draw(strategy) for name, strategy in names.items()}
    unit = st.floats(0, 1)
    return {**arguments, "gamma": draw(unit), "lam": draw(unit)}


@needs.compiled_core
@given(any_arguments())
def test_native_and_numpy_agree_bit_for_bit(arguments):
    compiled = np.full(arguments["rewards"].shape, np.nan, np.float32)
    twin = compiled.copy()
    native.advantage_scan(**arguments, out=compiled)
    native.advantage_scan_numpy(**arguments, out=twin)
    np.testing.assert_array_equal(compiled, twin)


class TestRefusals:
    @pytest.mark.parametrize("name", ["rewards", "values", "next_values", "out"])
    def test_float64(self, name):
        wide = np.zeros((1, 4), np.float64)
        with pytest.raises(TypeError, match=rf"{name}: expected .*float32, got float64"):
            run(native.advantage_scan, **{name: wide})

    @pytest.mark.parametrize("name", ["terminals", "dones", "valid"])
    def test_integer_flags(self, name):
        integers = np.zeros((1, 4), np.uint8)
        with pytest.raises(TypeError, match=rf"{name}: expected .*bool.*, got uint8"):
            run(native.advantage_scan, **{name: integers})

    def test_list(self):
        with pytest.raises(TypeError, match=r"rewards: expected a NumPy array.*got list"):
            run(native.advantage_scan, rewards=[[1.0, 1.0, 1.0, 1.0]])

    def test_non_contiguous(self):
        strided = np.zeros((1, 8), np.float32)[:, ::2]
        with pytest.raises(ValueError, match=r"values: expected a C-contiguous array"):
            run(native.advantage_scan, values=strided)

    @pytest.mark.parametrize("shape", [(1, 3), (2, 4), (4,), (1, 4, 1)])
    def test_other_shape(self, shape):
        with pytest.raises(ValueError, match=r"next_values: expected shape .* \(1, 4\), got"):
            run(native.advantage_scan, next_values=np.zeros(shape, np.float32))

    def test_read_only_output(self):
        frozen = np.zeros((1, 4), np.float32)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="out: expected a writable array"):
            run(native.advantage_scan, out=frozen)

    @needs.compiled_core
    @pytest.mark.parametrize(
        "bad",
        [np.zeros((1, 4), np.float64), np.zeros((1, 8), np.float32)[:, ::2]],
        ids=["float64", "strided"],
    )
    def test_the_compiled_function_itself_converts_nothing(self, bad):
        from pufferlib import _native

        for name in ("rewards", "out"):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                run(_native.advantage_scan, **{name: bad})


class TestInstallation:
    @pytest.mark.smoke
    @pytest.mark.skipif(
        os.environ.get("PUFFER_REQUIRE_NATIVE", "0") in ("", "0"),
        reason="a pure installation is allowed here; PUFFER_REQUIRE_NATIVE=1 demands the core",
    )
    def test_required_core_is_there(self):
        assert native.available

    @pytest.mark.filterwarnings("error")
    def test_missing_core_is_noticed_once_at_first_use(self, monkeypatch):
        monkeypatch.setattr(native, "_core", None)
        # A fresh cache: another test of this process may have used up the notice.
        notice = functools.cache(native._notice_missing_core.__wrapped__)
        monkeypatch.setattr(native, "_notice_missing_core", notice)
        with pytest.warns(RuntimeWarning, match=r"without its native core.*g\+\+"):
            first = run(native.advantage_scan)
        second = run(native.advantage_scan)  # a second warning would be an error
        assert first.tolist() == second.tolist() == [[14, 13, 12, 11]]

    @needs.compiled_core
    def test_core_was_built_from_these_sources(self):
        from pufferlib import _native

        names = _native.SOURCES.split()
        assert {"CMakeLists.txt", "module.cpp", "advantage_scan.hpp", "vtrace_scan.hpp"} <= set(
            names
        )
        on_disk = native._hash_sources(NATIVE_DIR, names)
        assert on_disk in (None, _native.SOURCE_HASH)

    @pytest.mark.filterwarnings("error")
    def test_stale_core_warns_and_says_how_to_rebuild(self, tmp_path):
        (tmp_path / "a.cpp").write_text("int a;\n")
        compiled = native._hash_sources(tmp_path, ["a.cpp"])
        core = SimpleNamespace(SOURCES="a.cpp", SOURCE_HASH=compiled)
        native._warn_if_stale(core, tmp_path)  # equal: a warning would be an error
        (tmp_path / "a.cpp").write_text("int b;\n")
        with pytest.warns(RuntimeWarning, match=f"rebuild it with `{native.REBUILD}`"):
            native._warn_if_stale(core, tmp_path)

    def test_a_wheel_without_sources_is_not_stale(self, tmp_path, recwarn):
        native._warn_if_stale(SimpleNamespace(SOURCES="gone.cpp", SOURCE_HASH="0"), tmp_path)
        assert not recwarn

    @needs.compiled_core
    def test_importing_over_changed_sources_warns(self, tmp_path):
        """A copy of the Python side with one changed source, in a fresh process."""
        package = tmp_path / "pufferlib" / "native"
        for sources in ("native", "environments/ocean/native"):
            shutil.copytree(NATIVE_DIR.parent / sources, tmp_path / "pufferlib" / sources)
        if not (package / "module.cpp").exists():
            pytest.skip("installed from a wheel: no sources to change")
        with (package / "module.cpp").open("a") as source:
            source.write("// changed\n")
        script = (
            "import importlib.util, sys\n"
            "import pufferlib._native\n"
            "spec = importlib.util.spec_from_file_location('copy', sys.argv[1])\n"
            "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        )
        result = subprocess.run(
            [sys.executable, "-c", script, str(package / "__init__.py")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "compiled from other sources" in result.stderr
