"""The first-party environments under the names that earlier versions used."""

from pufferlib.environments.ocean.sanity import (
    Bandit,
    Memory,
    Multiagent,
    Password,
    Spaces,
    Squared,
    Stochastic,
)

__all__ = ["Bandit", "Memory", "Multiagent", "Password", "Spaces", "Squared", "Stochastic"]
