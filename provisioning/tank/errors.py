"""The one error that people see."""


class TankError(Exception):
    """What went wrong, and below it what to do: one line each.

    `status` is the exit status: 2 for a wrong command line, 69 where the machine cannot serve it
    (EX_UNAVAILABLE), else 1.
    """

    def __init__(self, message: str, *remedies: str, status: int = 1) -> None:
        super().__init__(message)
        self.remedies = remedies
        self.status = status

    def __str__(self) -> str:
        return "\n  ".join([f"tank: {self.args[0]}", *self.remedies])


USAGE = 2
UNAVAILABLE = 69
