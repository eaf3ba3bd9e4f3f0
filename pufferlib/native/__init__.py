"""The native core, or its NumPy twins where it was not compiled.

Functions here check their arguments once and then call the compiled function if there is one
(``available``) and the NumPy twin otherwise. Both give the same bits. Without a compiler the
library works, only slower; the first call says so once. ``PUFFER_REQUIRE_NATIVE=1`` at
installation turns that silent fallback into an error.
"""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.exceptions import EnvironmentSetupError

__all__ = [
    "advantage_scan",
    "advantage_scan_numpy",
    "available",
    "require",
    "state",
    "vtrace_scan",
    "vtrace_scan_numpy",
]

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

REBUILD = "tank install" if "PUFFERTANK_VERSION" in os.environ else "pip install --no-deps -e ."
"""In the PufferTank, pip alone would want a network and rights to the image's environment."""


def _load_core() -> ModuleType | None:
    """Return the compiled module, or None where the package was installed without one."""
    try:
        import pufferlib._native as core
    except ModuleNotFoundError:
        return None
    return core


def _hash_sources(directory: Path, names: list[str]) -> str | None:
    """Hash the named files as the build does; None where they are not all on disk (a wheel)."""
    lines = []
    for name in names:
        try:
            content = (directory / name).read_bytes()
        except FileNotFoundError:
            return None
        lines.append(f"{name} {hashlib.sha256(content).hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def state() -> str:
    """`missing`, `fresh`, or `stale`: compiled from other sources than those beside this file."""
    if _core is None:
        return "missing"
    on_disk = _hash_sources(Path(__file__).parent, _core.SOURCES.split())
    return "fresh" if on_disk in (None, _core.SOURCE_HASH) else "stale"


def require(name: str, what: str) -> Any:
    """`name` of the compiled module, for `what` has no twin in NumPy.

    Raises:
        EnvironmentSetupError: pufferlib was installed without its core, or with an older one.
    """
    if _core is None or not hasattr(_core, name):
        lacking = "was installed without" if _core is None else "has an older build of"
        raise EnvironmentSetupError(
            f"{what} needs pufferlib's native core, and this pufferlib {lacking} it. Install C and "
            "C++ compilers (on Debian and Ubuntu: apt install gcc g++ python3-dev) and install "
            f"pufferlib again; in its repository: `{REBUILD}`"
        )
    return getattr(_core, name)


def _warn_if_stale(core: ModuleType, directory: Path) -> None:
    """Warn when the sources next to this file are not the ones that were compiled."""
    on_disk = _hash_sources(directory, core.SOURCES.split())
    if on_disk is not None and on_disk != core.SOURCE_HASH:
        warnings.warn(
            f"The native core was compiled from other sources than the ones in {directory} "
            f"(compiled {core.SOURCE_HASH[:12]}, on disk {on_disk[:12]}): "
            f"rebuild it with `{REBUILD}` in the repository.",
            RuntimeWarning,
            stacklevel=2,
        )


@functools.cache
def _notice_missing_core() -> None:
    """Say once per process that the NumPy twins are used."""
    warnings.warn(
        "pufferlib was installed without its native core; the slower NumPy functions are used. "
        "To build it, install a C++ compiler (on Debian and Ubuntu: apt install g++ python3-dev) "
        "and install pufferlib again.",
        RuntimeWarning,
        stacklevel=3,
    )


_core = _load_core()
available: bool = _core is not None
if _core is not None:
    _warn_if_stale(_core, Path(__file__).parent)


def advantage_scan(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    gamma: float,
    lam: float,
    out: Floats,
) -> None:
    """Write generalized advantage estimates into ``out``, backwards over each segment.

    The equation and what each argument means are in
    ``pufferlib.trainer.advantage.estimate_advantages``, whose inner loop this is. All arrays have
    shape (S, H), are C-contiguous, and float32 or bool. Elements that are not valid may hold
    anything, NaN included; ``out`` is 0 there.

    Raises:
        TypeError: An array has another dtype, or is no array. Nothing is converted.
        ValueError: An array has another shape than ``rewards``, is not C-contiguous, or ``out`` is
            read-only.
    """
    _check_arrays(rewards, terminals, dones, valid, values=values, next_values=next_values)
    _check_outputs(rewards, out=out)
    if _core is None:
        _notice_missing_core()
    scan = advantage_scan_numpy if _core is None else _core.advantage_scan
    scan(rewards, values, next_values, terminals, dones, valid, gamma, lam, out)


def vtrace_scan(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    ratios: Floats,
    gamma: float,
    lam: float,
    rho_clip: float,
    c_clip: float,
    out: Floats,
    errors: Floats,
) -> None:
    """Write V-trace's advantages into ``out`` and its corrections of the values into ``errors``.

    The equations are in ``pufferlib.trainer.advantage.estimate_vtrace``, whose inner loop this is.
    Arrays and what is raised are as in ``advantage_scan``.
    """
    floats = {"values": values, "next_values": next_values, "ratios": ratios}
    _check_arrays(rewards, terminals, dones, valid, **floats)
    _check_outputs(rewards, out=out, errors=errors)
    if _core is None:
        _notice_missing_core()
    scan = vtrace_scan_numpy if _core is None else _core.vtrace_scan
    flags = (terminals, dones, valid)
    scan(rewards, values, next_values, *flags, ratios, gamma, lam, rho_clip, c_clip, out, errors)


def _check_arrays(
    rewards: Floats, terminals: Bools, dones: Bools, valid: Bools, **floats: Floats
) -> None:
    for name, array in {"rewards": rewards, **floats}.items():
        _check_array(name, array, np.float32, rewards)
    for name, flags in {"terminals": terminals, "dones": dones, "valid": valid}.items():
        _check_array(name, flags, np.bool_, rewards)


def _check_outputs(rewards: Floats, **outputs: Floats) -> None:
    for name, array in outputs.items():
        _check_array(name, array, np.float32, rewards)
        if not array.flags.writeable:
            raise ValueError(f"{name}: expected a writable array, got a read-only one; pass a copy")


def _check_array(name: str, array: NDArray, dtype: type[np.generic], like: NDArray) -> None:
    """Refuse what would be converted, copied or read out of bounds."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(
            f"{name}: expected a NumPy array of {dtype.__name__}, got {got}; "
            f"convert it first, nothing is converted here"
        )
    if array.ndim != 2 or array.shape != like.shape:
        raise ValueError(
            f"{name}: expected shape (segments, horizon) like rewards {like.shape}, "
            f"got {array.shape}"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: expected a C-contiguous array, got strides {array.strides}; "
            f"use numpy.ascontiguousarray"
        )


def advantage_scan_numpy(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    gamma: float,
    lam: float,
    out: Floats,
) -> None:
    """Do what the compiled ``advantage_scan`` does, in NumPy: over all segments, step by step."""
    gamma_lam = np.float32(gamma * lam)
    bootstraps = np.float32(gamma) * np.where(terminals, np.float32(0), next_values)
    deltas = (rewards + bootstraps) - values
    next_advantages = np.zeros(len(rewards), np.float32)
    for step in reversed(range(rewards.shape[1])):
        carried = np.where(dones[:, step], np.float32(0), next_advantages)
        advantages = deltas[:, step] + gamma_lam * carried
        next_advantages = np.where(valid[:, step], advantages, np.float32(0))
        out[:, step] = next_advantages


def vtrace_scan_numpy(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    ratios: Floats,
    gamma: float,
    lam: float,
    rho_clip: float,
    c_clip: float,
    out: Floats,
    errors: Floats,
) -> None:
    """Do what the compiled ``vtrace_scan`` does, in NumPy: over all segments, step by step."""
    zero, gamma_lam = np.float32(0), np.float32(gamma * lam)
    bootstraps = np.float32(gamma) * np.where(terminals, zero, next_values)
    deltas = (rewards + bootstraps) - values
    rho, c = (np.where(ratios < clip, ratios, clip) for clip in map(np.float32, (rho_clip, c_clip)))
    next_errors = np.zeros(len(rewards), np.float32)
    for step in reversed(range(rewards.shape[1])):
        carried = np.where(dones[:, step], zero, next_errors)
        advantages = deltas[:, step] + gamma_lam * carried
        corrected = rho[:, step] * deltas[:, step] + (gamma_lam * c[:, step]) * carried
        out[:, step] = np.where(valid[:, step], advantages, zero)
        errors[:, step] = next_errors = np.where(valid[:, step], corrected, zero)
