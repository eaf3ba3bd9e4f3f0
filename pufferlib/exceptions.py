"""Every error that pufferlib raises on purpose; catch `PufferError` for all of them."""


class PufferError(Exception):
    """Root of pufferlib's errors."""


class APIUsageError(PufferError, RuntimeError):
    """A call came out of order, or with arguments that cannot work."""


class InvalidAgentError(PufferError, ValueError):
    """An agent name that the environment does not know."""

    def __init__(self, agent: object, agents: object) -> None:
        super().__init__(f"unknown agent {agent!r}; this environment's agents are {agents!r}")
        self.agent = agent
        self.agents = agents

    def __reduce__(self) -> tuple[type, tuple[object, object]]:
        return type(self), (self.agent, self.agents)


class SpaceError(PufferError, ValueError):
    """A space that cannot be emulated, or data that do not fit their space."""


class WorkerError(PufferError, RuntimeError):
    """An environment raised, or the process that ran it died."""


class EnvironmentSetupError(PufferError, ImportError):
    """What an environment or an option needs is missing here; the message has the remedy."""


class CheckpointError(PufferError, RuntimeError):
    """A checkpoint could not be written, read or applied."""


class ExportError(PufferError, RuntimeError):
    """A policy that cannot be written in another format."""


class SnapshotError(PufferError, RuntimeError):
    """The state of an environment could not be taken or put back."""


class GroupError(PufferError, RuntimeError):
    """Another process of a run with several has ended, or does not answer."""


class ConfigError(PufferError, ValueError):
    """A setting that does not exist or has an impossible value."""


class NonFiniteError(PufferError, ArithmeticError):
    """A NaN or an infinity where training needs finite numbers."""
