"""The state of an environment as bytes, so that its episode can go on in another process.

An environment may say itself what its state is, with two methods of its class:

* `get_state()` returns anything that pickles;
* `set_state(state)` goes on from there, in a process that made the environment the same way.

Any other environment is pickled whole, wrappers and random generators included, and the copy takes
its place. A wrapper around an environment with the two methods is pickled without it. What pickle
would lose without a word is refused: environments that pickle as their constructor's arguments
(`EzPickle`) or in another way of their own, arrays that share memory, and memory that belongs to a
library. State outside the object (class attributes, a library's own variables behind a handle that
is a plain number) cannot be seen: such an environment needs the two methods.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from pufferlib.exceptions import SnapshotError


def has_state(env: Any) -> bool:
    """Whether the class of `env` itself, not something it wraps, has get_state and set_state."""
    return all(hasattr(type(env), name) for name in ("step", "get_state", "set_state"))


def take(env: Any) -> bytes:
    """The state of `env` and all its wrappers.

    Raises:
        SnapshotError: it cannot be taken, or not as a whole.
    """
    file = io.BytesIO()
    try:
        _Pickler(file).dump(env)
    except SnapshotError:
        raise
    except Exception as error:  # environments raise what they like while they are pickled
        raise SnapshotError(
            f"the state of {_name(env)} cannot be pickled ({type(error).__name__}: {error}); give "
            "the environment get_state() and set_state(state)"
        ) from error
    return file.getvalue()


def put_back(env: Any, snapshot: bytes) -> Any:
    """The environment to use from now on, in the state of `snapshot`.

    Unpickling runs code that the bytes name: they must come from a source that you trust.

    Args:
        env: made as the one whose state was taken. It, or the layer of it that has `set_state`,
            goes on being used; what was pickled is replaced.
        snapshot: from `take`.

    Raises:
        SnapshotError: the bytes are damaged, or belong to another environment.
    """
    try:
        return _Unpickler(io.BytesIO(snapshot), env).load()
    except Exception as error:  # pickle, and environments, raise a dozen unrelated types
        raise SnapshotError(
            f"the state of {_name(env)} cannot be restored ({type(error).__name__}: {error})"
        ) from error


def copies_whole(env: Any) -> bool:
    """Whether `env` pickles as it is now, with nothing in it that keeps its state elsewhere."""
    pickler = _Pickler(io.BytesIO())
    try:
        pickler.dump(env)
    except Exception:  # environments raise what they like while they are pickled
        return False
    return pickler.given is None


def layers(env: Any) -> Iterator[Any]:
    """`env` and the environments it wraps, outermost first."""
    while env is not None:
        yield env
        attributes = getattr(env, "__dict__", {})
        env = attributes.get("env", attributes.get("aec_env"))


class _Pickler(pickle.Pickler):
    """Writes the state of environments that give it, and refuses what would be lost."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)  # from 5 on, arrays come back in memory of the pickle
        self._owners: dict[int, np.ndarray] = {}
        self.given: Any = None

    def persistent_id(self, obj: Any) -> Any:
        """A layer with `get_state` is no part of the pickle: only its state is."""
        if not has_state(obj):
            return None
        if self.given is not None and self.given is not obj:
            raise SnapshotError(
                f"{type(obj).__name__} has a state of its own beside {type(self.given).__name__}; "
                "give the environment around them get_state() and set_state(state)"
            )
        self.given = obj
        return (obj.get_state(),)

    def reducer_override(self, obj: Any) -> Any:
        """Changes nothing; raises for what does not come back as it was."""
        if isinstance(obj, np.ndarray):
            self._require_own_memory(obj)
        elif not isinstance(obj, type):
            _require_plain_pickling(obj)
        return NotImplemented

    def _require_own_memory(self, array: np.ndarray) -> None:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner.base is not None:
            raise SnapshotError(
                f"an array {array.shape} lies in the memory of {type(owner.base).__name__}; give "
                "the environment get_state() and set_state(state)"
            )
        if self._owners.setdefault(id(owner), array) is not array:
            raise SnapshotError(
                f"two arrays, {self._owners[id(owner)].shape} and {array.shape}, share memory and "
                "would not any more; give the environment get_state() and set_state(state)"
            )


class _Unpickler(pickle.Unpickler):
    """Puts states back into the layer of the existing environment that has `set_state`."""

    def __init__(self, file: io.BytesIO, env: Any) -> None:
        super().__init__(file)
        self._env = env

    def persistent_load(self, pid: tuple[Any]) -> Any:
        """The existing layer, in that state."""
        layer = next(layer for layer in layers(self._env) if has_state(layer))
        layer.set_state(*pid)
        return layer


def _name(env: Any) -> str:
    return type(getattr(env, "unwrapped", env)).__name__


def _require_plain_pickling(obj: Any) -> None:
    kind = type(obj)
    if any(base.__name__ == "EzPickle" for base in kind.__mro__):
        way = "pickles as its constructor's arguments (EzPickle)"
    elif hasattr(kind, "step") and hasattr(kind, "reset") and not _is_plain(kind):
        way = "pickles in its own way"
    else:
        return
    raise SnapshotError(
        f"{kind.__name__} {way}, which may leave out its state; give it get_state() and "
        "set_state(state)"
    )


def _is_plain(kind: type) -> bool:
    names = ("__getstate__", "__reduce__", "__reduce_ex__")
    return all(getattr(kind, name) is getattr(object, name) for name in names)
