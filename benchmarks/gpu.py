"""What a GPU gives: the whole training loop with each of the trainer's options, in one table.

    python benchmarks/gpu.py [--device cuda] [--minutes 5] [--json FILE] [--markdown FILE]
    python benchmarks/gpu.py --device cpu --seconds 1     # the same code where there is no GPU

The rows of native Squared and Snake for thousands of agents, MLP and LSTM, in float32 and bfloat16,
with and without `torch.compile` and CUDA graphs; beside each the bound: the same network alone, in
the same process (`native.py`). A measurement that fails is a row of the table with its reason; on
the CPU that is so for the CUDA graphs. Without a GPU it says so, and exits with 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import native
import torch
from native import ENVS, Case
from report import as_markdown, machine, show

NATIVE, KINDS = ("squared", "snake"), ("mlp", "lstm")
START_SECONDS = 8.0  # of a row: the first update, and compiling where that is asked for


@dataclass(frozen=True)
class Variant:
    """Options of the trainer under one name."""

    name: str
    options: dict[str, Any]


VARIANTS = (
    Variant("plain", {}),
    Variant("compiled", {"compile": True}),
    Variant("graphs", {"cuda_graphs": True}),
    Variant("compiled, graphs", {"compile": True, "cuda_graphs": True}),
)
PRECISIONS = ("fp32", "bf16")

Row = tuple[str, str, str, Variant]
"""Environment, network, precision and variant."""


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """What `native.measure` says, or `{"failed": why}`: one row must not cost the others."""
    try:
        return native.measure(case, seconds)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


HEADINGS = (
    "rows",
    "network",
    "precision",
    "variant",
    "steps/s",
    "bound",
    "% of bound",
    "most of it",
)


def as_row(found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    row = [found[name] for name in ("env", "kind", "precision", "variant")]
    if "failed" in found:
        return [*row, "–", "–", "–", found["failed"]]
    speed, bound = found["steps_per_second"], found["bound"]
    shares = sorted(found["shares"].items(), key=lambda share: -share[1])[:2]
    most = ", ".join(f"{phase} {share:.0%}" for phase, share in shares)
    return [*row, f"{speed:,.0f}", f"{bound:,.0f}", f"{speed / bound:.0%}", most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=5.0, help="for all rows together")
    parser.add_argument("--seconds", type=float, help="per row, instead")
    parser.add_argument("--agents", type=int, default=4096)
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=NATIVE)
    parser.add_argument("--networks", nargs="+", choices=native.KINDS, default=KINDS)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    args = parser.parse_args()
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(
            "no GPU: torch finds no CUDA device here; --device cpu runs the same code on the CPU"
        )
    chosen: list[Row] = list(itertools.product(args.envs, args.networks, PRECISIONS, VARIANTS))
    seconds = args.seconds or max(1.0, 60 * args.minutes / len(chosen) - START_SECONDS)
    results = []
    for env, kind, precision, variant in chosen:
        print(f"{env}, {kind}, {precision}, {variant.name} …", file=sys.stderr, flush=True)
        options = variant.options | {"precision": precision}
        case = Case(env=env, kind=kind, agents=args.agents, device=args.device, options=options)
        found = measure(case, seconds)
        names = {"precision": precision, "variant": variant.name}
        results.append({"env": env, "kind": kind} | found | names)
    table = [as_row(found) for found in results]
    name = torch.cuda.get_device_name(args.device) if args.device != "cpu" else "CPU"
    show(f"{args.agents} agents on {name}", HEADINGS, table)
    if args.markdown:
        args.markdown.write_text(as_markdown(HEADINGS, table))
    if args.json:
        content = {"machine": machine(), "device": name, "results": results}
        args.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
