"""Directories of runs as training leaves them."""

import json

from pufferlib.trainer import record


def make_run(data_dir, name, env="squared", state=None, points=(), seed=1, gamma=0.99, **changes):
    """A run with `points` of (step, score); without `state` this process is training it.

    `changes` go over its record.
    """
    run_dir = data_dir / name
    (run_dir / "checkpoints").mkdir(parents=True)
    (run_dir / "checkpoints" / "000007.pt").write_bytes(b"")
    config = {"env_name": env, "score_key": "score", "train": {"seed": seed, "gamma": gamma}}
    (run_dir / "config.json").write_text(json.dumps(config))
    begun = {
        "env_name": env,
        "score_key": "score",
        "state": state or "running",
        "started": "2026-01-01T00:00:00+00:00",
        "git": {"commit": "0123456789" * 4, "dirty": True},
        "pufferlib": {"version": "0.1.0", "git": None},
        "lock": "abcdefabcdef",
        **changes,
    }
    (run_dir / record.RECORD_FILE).write_text(json.dumps(begun))
    lines = [
        {"step": step, "seconds": step / 100, "episodes/score": score, "train/entropy": 0.5}
        for step, score in points
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run_dir / "metrics.jsonl").write_text(text)
    return run_dir
