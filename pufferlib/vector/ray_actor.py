"""The actor that runs a few environments for `Ray`, on the machine where Ray has put it."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import WorkerError
from pufferlib.vector.group import Description, Ledger
from pufferlib.vector.messages import dumps, to_message
from pufferlib.vector.service import Service, block_layout, use_one_thread

# A worker's `Block`, and what there is to tell beside it.
Result = tuple[NDArray[np.uint8], bytes | None]


class Block:
    """How what a worker writes lies in one array of bytes, which travels as a whole.

    Attributes:
        nbytes: of the array.
    """

    def __init__(self, description: Description, num_envs: int) -> None:
        self._layout = block_layout(description, num_envs)
        self.nbytes = self._layout.nbytes + num_envs * np.dtype(np.uint32).itemsize

    def rows(self, data: NDArray[np.uint8]) -> Buffers:
        """The rows in `data`."""
        return self._layout.map(data)

    def restarts(self, data: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """How often each environment has been made anew."""
        return data[self._layout.nbytes :].view(np.uint32)


class Actor:
    """Obeys the driver, whose calls come in the order in which it made them.

    Messages travel pickled, so that what cannot be pickled is told like any other error.
    """

    def __init__(self) -> None:
        use_one_thread()
        self._service: Service | None = None

    def begin(self, plan: bytes) -> bytes:
        """Make the environments of a pickled `Plan`; their description, or what one raised."""
        try:
            service = self._service = Service(pickle.loads(plan))
        except Exception as error:
            return dumps(to_message(error))
        description = service.group.description
        block = Block(description, len(service.group.envs))
        self._block = np.zeros(block.nbytes, np.uint8)
        self._buffers = block.rows(self._block)
        nobody_looks = memoryview(bytearray(4)).cast("I")
        self._ledger = Ledger(nobody_looks, block.restarts(self._block))
        service.bind(self._buffers, self._ledger)
        return dumps(("description", description))

    def take_over(self, block: NDArray[np.uint8], lost: bytes, payload: bytes | None) -> Result:
        """Go on in the place of an actor that died in a step, or in the reset of `payload`.

        Args:
            block: the other's, as far as the driver knows.
            lost: a pickled `Lost`.
        """
        self._block[...] = block
        try:
            self._begun.bind(self._buffers, self._ledger, lost)
        except Exception as error:
            return self._result(to_message(error))
        return self._result(self._begun.tell() if payload is None else self._begun.reset(payload))

    def step(self, actions: NDArray[Any]) -> Result:
        """Act in all environments."""
        self._buffers.actions[...] = actions
        return self._result(self._begun.step())

    def reset(self, payload: bytes) -> Result:
        """Reset all environments; see `Service.reset`."""
        return self._result(self._begun.reset(payload))

    def restore(self, block: NDArray[np.uint8]) -> Result:
        """Put back a block, at whose rows an environment may look in its next step."""
        self._block[...] = block
        return self._result(None)

    def answer(self, payload: bytes) -> bytes:
        """The pickled answer to a call on one environment; see `Service.answer`."""
        return self._begun.pack(self._begun.answer(payload))

    def close(self) -> Iterator[tuple[str, Any]]:
        """Close the environments: the index of each before its turn, at last what went wrong."""
        if self._service is None:
            return
        try:
            for index in self._service.group.closing():
                yield "closing", index
        except WorkerError as error:
            yield "closing failed", str(error)

    def __ray_shutdown__(self) -> None:
        """Ray's last call, for which it may not find the time when the driver was killed."""
        if self._service is not None:
            with contextlib.suppress(WorkerError):  # nobody is left to be told
                self._service.group.close()

    @property
    def _begun(self) -> Service:
        assert self._service is not None, "begin() comes first"
        return self._service

    def _result(self, message: tuple[Any, ...] | None) -> Result:
        return self._block, None if message is None else self._begun.pack(message)
