"""The first-party environments under the names that earlier versions used."""

from pufferlib.environments.ocean.sanity import Squared

__all__ = ["Squared"]
