"""Which of the rows whose episode ended the environments' records tell of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.environment import Infos
from pufferlib.postprocess import end_records
from pufferlib.vector import VecEnv

__all__ = ["RowRecords"]


class RowRecords:
    """Gives the records of `pufferlib.postprocess.end_records` to rows.

    Infos do not say whose they are, but come in the order of the environments, and name agents. So
    records are right where every episode that ends has one; where some have none, as those of
    environments without statistics beside others with them, a record may stand at a later end.

    Args:
        vecenv: whose infos they are.
    """

    def __init__(self, vecenv: VecEnv) -> None:
        names = getattr(vecenv.driver_env, "possible_agents", ())
        self._places = {name: place for place, name in enumerate(names)}

    def __call__(
        self, infos: Infos, ended: NDArray[np.bool_], masks: NDArray[np.bool_]
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Rows and their records; none of a row where only a part of an episode ended, as a life.

        Args:
            infos: of one step.
            ended: bool `(num_agents,)`, an episode ended in the row.
            masks: bool `(num_agents,)`; one that ended where nobody is was lost with its
                environment, which was made anew, and has no record.
        """
        rows = np.flatnonzero(ended & masks).tolist()
        for row, record in zip(rows, end_records(map(self._in_order, infos)), strict=False):
            if record is not None:
                yield row, record

    def _in_order(self, info: dict[Any, Any]) -> dict[Any, Any]:
        """An info by agent in the order of the agents' rows, whatever the environment's."""
        if len(info) < 2 or not info.keys() <= self._places.keys():
            return info
        return {agent: info[agent] for agent in sorted(info, key=self._places.__getitem__)}
