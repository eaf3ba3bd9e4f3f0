"""What creators demand of the processes that their environments live in.

They do so by attributes, which any class or function can have. These are found through
`functools.partial` as well, and through whatever else has the creator as `func`:

* `start_method`: how worker processes start, such as 'spawn' where a library does not survive a
  fork;
* `one_per_process = True`: no process may have two of the environments, as for an emulator whose
  state is global.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pufferlib.exceptions import APIUsageError
from pufferlib.vector.backend import Creator


def start_methods(creators: Sequence[Creator]) -> set[str]:
    """The start methods that are demanded, mostly none."""
    return {demand for creator in creators if (demand := _demand(creator, "start_method"))}


def one_per_process(creators: Sequence[Creator]) -> bool:
    """Whether any of the environments refuses others in its process."""
    return any(_demand(creator, "one_per_process") for creator in creators)


def check_shared_process(creators: Sequence[Creator]) -> None:
    """Refuse environments that cannot be in one process, the caller's.

    Raises:
        APIUsageError: there are several, and a creator demands one per process.
    """
    if len(creators) > 1 and one_per_process(creators):
        raise APIUsageError(
            f"Serial: expected num_envs=1, as the environments' creators demand one per process, "
            f"got {len(creators)}; use backend='multiprocessing', or leave backend out"
        )


def _demand(creator: Any, name: str) -> Any:
    """The value of a creator's attribute, also through `functools.partial`; None: not demanded."""
    while creator is not None:
        demand = getattr(creator, name, None)
        if demand is not None:
            return demand
        creator = getattr(creator, "func", None)
    return None
