"""Which transitions count, and how much better each was than expected. Pure NumPy functions.

Column t of every `(S, H)` array belongs to the transition t → t+1 of one segment: the
observation and action of row t, the reward and flags of row t+1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pufferlib import native

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def valid_transitions(masks: Bools, dones: Bools, same_step: bool) -> Bools:
    """The transitions in which an agent really acted.

    Both rows must be present. Where environments reset in the step after an episode's last row
    (next-step reset), the action on that row is ignored, so it is no sample. Where they reset in
    the same step, every present row is acted upon.

    Args:
        masks: `(S, H + 1)`, presence of each row.
        dones: `(S, H + 1)`, terminal or truncated.
        same_step: whether the environments reset in the same step.

    Returns:
        bool `(S, H)`.
    """
    assert masks.shape == dones.shape, (masks.shape, dones.shape)
    valid = masks[:, :-1] & masks[:, 1:]
    return valid if same_step else valid & ~dones[:, :-1]


def estimate_advantages(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    gamma: float,
    lam: float,
) -> Floats:
    """Generalized advantage estimation, each segment for itself.

        delta_t = r_{t+1} + gamma * V(s_{t+1}) * (1 - terminal_{t+1}) - V(s_t)
        A_t     = delta_t + gamma * lam * (1 - done_{t+1}) * A_{t+1}

    `V(s_{t+1})` is the value of the observation that the action led to: after a truncation that
    of the episode's last observation, at a segment's end that of the row after it. Nothing flows
    over the end of an episode, nor through a transition that is not valid.

    Source: Schulman et al. 2016, *High-Dimensional Continuous Control Using Generalized Advantage
    Estimation*, equation 16; truncation as in Pardo et al. 2018, *Time Limits in Reinforcement
    Learning*.

    Args:
        rewards: float32 `(S, H)`, of the transition.
        values: float32 `(S, H)`, of the observation acted upon.
        next_values: float32 `(S, H)`, of the observation that the action led to.
        terminals: bool `(S, H)`, the transition ended the episode by the task's own rules.
        dones: bool `(S, H)`, it ended the episode, by rule or by truncation.
        valid: bool `(S, H)`, from `valid_transitions`.
        gamma: discount.
        lam: decay of the estimator, from 0 (one-step) to 1 (Monte Carlo).

    Returns:
        float32 `(S, H)`; 0 where a transition is not valid, whatever the inputs hold there.
    """
    advantages = np.empty(rewards.shape, np.float32)
    contiguous = np.ascontiguousarray  # the scan takes no strided views
    native.advantage_scan(
        contiguous(rewards),
        contiguous(values),
        contiguous(next_values),
        contiguous(terminals),
        contiguous(dones),
        contiguous(valid),
        gamma,
        lam,
        advantages,
    )
    return advantages


def estimate_vtrace(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminals: Bools,
    dones: Bools,
    valid: Bools,
    ratios: Floats,
    gamma: float,
    lam: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> tuple[Floats, Floats]:
    """V-trace, each segment for itself: what to learn from actions that an older policy chose.

        e_t = v_t - V_t = min(rho, w_t) delta_t + gamma lam min(c, w_t) (1 - done_{t+1}) e_{t+1}
        A_t             = delta_t + gamma lam (1 - done_{t+1}) e_{t+1}

    with `delta_t` and everything else as in `estimate_advantages`, to which it is equal where
    all ratios are 1 and the clips are not below. The ratio of the action itself is not in `A_t`:
    PPO's objective multiplies by it.

    Source: Espeholt et al. 2018, *IMPALA: Scalable Distributed Deep-RL with Importance Weighted
    Actor-Learner Architectures*, equation 1 and remarks 1 and 2.

    Args:
        rewards, values, next_values, terminals, dones, valid, gamma, lam: as there.
        ratios: float32 `(S, H)`, w: the action's probability now over that when it was chosen.
        rho_clip: bounds w where it decides which policy's value is estimated.
        c_clip: bounds w where it decides how far corrections reach back.

    Returns:
        A and v, each float32 `(S, H)`; 0 and V where a transition is not valid.
    """
    advantages, errors = np.empty((2, *rewards.shape), np.float32)
    contiguous = np.ascontiguousarray
    native.vtrace_scan(
        contiguous(rewards),
        contiguous(values),
        contiguous(next_values),
        contiguous(terminals),
        contiguous(dones),
        contiguous(valid),
        contiguous(ratios),
        gamma,
        lam,
        rho_clip,
        c_clip,
        advantages,
        errors,
    )
    return advantages, values + errors
