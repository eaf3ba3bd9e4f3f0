# Stage 1 of 3: Debian 12, Python 3.11 in a virtual environment, a compiler, and torch of the lock.
#
#   docker build -f docker/base.dockerfile -t puffertank/base:cpu .
#
# BASE_IMAGE       Debian 12; a digest (debian@sha256:...) makes the build repeatable
# DEBIAN_SNAPSHOT  day of Debian's archive that packages come from; empty: the newest
# TORCH_VARIANT    cpu or cuda
# TORCH_INDEX      package index that torch comes from; empty: the usual one of the variant
# CUDA_TOOLKIT     1: also nvcc, of torch's CUDA version, to compile CUDA sources; cuda only
#
# docker/bake.json says which of these were never built.
# The optional secret `ca` is a certificate bundle for networks that have their own authority.
ARG BASE_IMAGE=debian:bookworm-slim

# A stand-in; with --build-context wheels=DIR torch comes from wheels there, if there is one.
FROM scratch AS wheels

FROM ${BASE_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

ARG DEBIAN_SNAPSHOT=
COPY docker/apt-install docker/compile-python /usr/local/bin/
RUN apt-install ca-certificates g++ git procps python3 python3-dev python3-venv

# On everybody's PATH, in login shells too (/etc/profile resets it). Members of the group `venv` may
# install into it; others get pip's user installation, for which it must see system packages.
COPY docker/profile.sh /etc/profile.d/puffertank.sh
RUN groupadd --system venv \
    && install -d -g venv -m 2775 /opt/venv \
    && umask 002 \
    && python3 -m venv --system-site-packages /opt/venv
# The last entry is the toolkit of CUDA_TOOLKIT=1.
ENV LANG=C.UTF-8 \
    PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/cuda/bin \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    VIRTUAL_ENV=/opt/venv

COPY constraints.txt /opt/puffertank/
ARG TORCH_VARIANT=cpu
ARG TORCH_INDEX=
COPY docker/install-torch /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=cache,target=/root/.cache/pip \
    umask 002 && /tmp/install-torch && rm /tmp/install-torch

# After torch, so that images with and without it share that layer, the largest.
ARG CUDA_TOOLKIT=0
COPY docker/install-cuda-toolkit /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=cache,target=/root/.cache/pip \
    if [ "${CUDA_TOOLKIT}" = 1 ]; then umask 002; /tmp/install-cuda-toolkit; fi \
    && rm /tmp/install-cuda-toolkit

ARG BASE_IMAGE
ARG VERSION=0 REVISION=unknown LOCK_HASH=unknown
LABEL org.opencontainers.image.title="PufferTank base" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="${BASE_IMAGE}" \
    org.opencontainers.image.licenses="MIT" \
    io.puffertank.lock-hash="${LOCK_HASH}" \
    io.puffertank.torch-variant="${TORCH_VARIANT}"
CMD ["bash"]
