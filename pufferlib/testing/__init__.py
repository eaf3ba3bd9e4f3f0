"""Conformance suites: does an environment, or a vectorized one, keep the contract?

`check_env` and `check_vecenv` raise `APIUsageError` with what was expected, what was found and
where. `rollout` records what a vectorized environment does under fixed actions, so that two
backends, or two versions of an environment, can be compared bit by bit with `require_equal`.
"""

from pufferlib.testing.env import check_env
from pufferlib.testing.recording import Rollout, rollout
from pufferlib.testing.rules import require_equal
from pufferlib.testing.vecenv import check_vecenv

__all__ = ["Rollout", "check_env", "check_vecenv", "require_equal", "rollout"]
