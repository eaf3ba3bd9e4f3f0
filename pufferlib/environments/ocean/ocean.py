"""The first-party environments under the names that earlier versions used."""

from pufferlib.environments.ocean.sanity import Memory, Squared

__all__ = ["Memory", "Squared"]
