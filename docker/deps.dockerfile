# Stage 2 of 3: system and Python packages of the environments.
#
#   docker build -f docker/deps.dockerfile --build-arg ENVS=nethack,mpe -t puffertank/deps:cpu .
#
# BASE_IMAGE    stage 1
# ENVS          environments, separated by commas: extras of pyproject.toml or names in
#               docker/system-packages.txt; `common` has all that share the lock
# DEEPMIND_LAB  1: also DeepMind Lab, by its Bazel build (UNTESTED: it needs code hosts)
# SMAC          1: also SMAC with StarCraft II; needs STARCRAFT_LICENCE, the password of the game's
#               licence, by which you accept it (UNTESTED: see install-smac, also for URLs)
# MINERL        1: also MineRL with Java 8 and Minecraft (UNTESTED: see install-minerl)
ARG BASE_IMAGE=puffertank/base:cpu

# A stage of its own, so that an unrelated change of pyproject.toml installs nothing again.
FROM ${BASE_IMAGE} AS requirements
ARG ENVS=nethack
WORKDIR /requirements
COPY pyproject.toml constraints/nodeps.txt docker/requirements.py docker/system-packages.txt /tmp/
RUN python /tmp/requirements.py /tmp/pyproject.toml /tmp/nodeps.txt /tmp/system-packages.txt \
    "${ENVS}"

FROM ${BASE_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG DEBIAN_SNAPSHOT=
COPY --from=requirements /requirements/system.txt /opt/puffertank/system.txt
RUN if [ -s /opt/puffertank/system.txt ]; then \
        xargs apt-install </opt/puffertank/system.txt; \
    fi
COPY --from=requirements /requirements/python.txt /requirements/nodeps.txt /opt/puffertank/
# The lock as a variable reaches isolated builds of source packages, too.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=cache,target=/root/.cache/pip \
    umask 002 \
    && export PIP_CONSTRAINT=/opt/puffertank/constraints.txt \
    && pip install --quiet --no-compile -r /opt/puffertank/python.txt \
    && if [ -s /opt/puffertank/nodeps.txt ]; then \
        pip install --quiet --no-compile --no-deps --ignore-requires-python \
            --no-build-isolation -r /opt/puffertank/nodeps.txt; \
    fi \
    && compile-python

ARG DEEPMIND_LAB=0
COPY docker/install-deepmind-lab /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    if [ "${DEEPMIND_LAB}" = 1 ]; then umask 002; /tmp/install-deepmind-lab; fi \
    && rm /tmp/install-deepmind-lab

ARG SMAC=0 STARCRAFT_LICENCE= STARCRAFT_URL= SMAC_URL= SMAC_MAPS_URL=
COPY docker/install-smac /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    if [ "${SMAC}" = 1 ]; then umask 002; /tmp/install-smac; fi \
    && rm /tmp/install-smac

ARG MINERL=0 JDK_URL= MINERL_URL=
COPY docker/install-minerl /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    if [ "${MINERL}" = 1 ]; then umask 002; /tmp/install-minerl; fi \
    && rm /tmp/install-minerl

ARG ENVS=nethack VERSION=0 REVISION=unknown LOCK_HASH=unknown
ENV PUFFERTANK_ENVS=${ENVS}
LABEL org.opencontainers.image.title="PufferTank deps" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    io.puffertank.envs="${ENVS}" \
    io.puffertank.lock-hash="${LOCK_HASH}"
