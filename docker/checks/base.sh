#!/bin/bash
# What every PufferTank image must be able to do; run in a container of it:
#
#   docker run --rm -v "$PWD/docker/checks:/checks:ro" --entrypoint bash IMAGE /checks/base.sh
set -euo pipefail

fail() {
    echo "base: $*" >&2
    exit 1
}

[[ $(python -c 'import sys; print(sys.version_info[:2])') == "(3, 11)" ]] \
    || fail "expected Python 3.11, got $(python --version)"
[[ $(bash -lc 'command -v python') == /opt/venv/bin/python ]] \
    || fail "a login shell does not find the virtual environment: $(bash -lc 'echo $PATH')"
python -c 'import torch; assert torch.ones(2, 2).matmul(torch.ones(2, 2)).sum() == 8'
c++ --version >/dev/null || fail "no C++ compiler"
git --version >/dev/null || fail "no git"
pip check || fail "packages do not fit together"

# Every installed package that the lock names has the locked version.
python - <<'PYTHON'
import importlib.metadata as metadata, re, sys

lock = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s#+]+)", open("/opt/puffertank/constraints.txt").read(), re.M))
wrong = []
for name, version in lock.items():
    try:
        installed = metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        continue
    if installed != version:
        wrong.append(f"{name}: locked {version}, installed {installed}")
sys.exit("\n".join(wrong) or None)
PYTHON
echo "base: ok"
