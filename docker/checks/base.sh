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
if command -v nvcc >/dev/null; then # CUDA_TOOLKIT=1
    echo '__global__ void one(float *x) { *x = 1; }
int main() { one<<<1, 1>>>(nullptr); }' >/tmp/kernel.cu
    nvcc -o /tmp/kernel /tmp/kernel.cu || fail "nvcc does not compile and link"
fi
# What stage 2 installs without its declared requirements complains about them, and runs.
complaints=$({ pip check || true; } 2>&1 | awk '
    BEGIN {while ((getline < "/opt/puffertank/nodeps.txt") > 0) {sub(/==.*/, ""); outdated[$0] = 1}}
    !($1 in outdated) && !/^No broken requirements/')
[[ -z $complaints ]] || fail "packages do not fit together: $complaints"

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
