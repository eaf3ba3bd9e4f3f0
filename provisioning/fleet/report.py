"""The table at the end."""

from __future__ import annotations

from collections.abc import Sequence

from tank.table import table

from fleet.session import Outcome


def finish(outcomes: Sequence[Outcome], columns: Sequence[str] = ()) -> None:
    """Print a row for each machine and end with the number of those that failed.

    Raises:
        SystemExit: some failed; its status is how many, 100 at most.
    """
    heading = ("MACHINE", "RESULT", *columns, "WHY")
    rows = [
        (
            each.machine,
            "FAILED" if each.failure else "ok",
            *(each.cells or ("",) * len(columns)),
            each.failure,
        )
        for each in outcomes
    ]
    print("\n" + table(heading, rows))
    failed = sum(bool(each.failure) for each in outcomes)
    print(f"{len(outcomes)} machines, {failed} failed")
    if failed:
        raise SystemExit(min(failed, 100))
