# Stage 3 of 3: the library of this checkout, editable at /puffer, and a shell to work in.
#
#   docker build -f docker/tank.dockerfile -t puffertank/tank:cpu .
#
# BASE_IMAGE  stage 2
ARG BASE_IMAGE=puffertank/deps:cpu
FROM ${BASE_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

ARG DEBIAN_SNAPSHOT=
RUN apt-install htop less neovim nvtop openssh-client openssh-sftp-server rsync tini tmux vim
COPY docker/shell/bashrc.sh /etc/profile.d/puffertank-prompt.sh
COPY docker/shell/vimrc /etc/vim/vimrc.local
COPY docker/shell/vimrc /etc/xdg/nvim/sysinit.vim
COPY docker/shell/tmux.conf /etc/tmux.conf
# The prompt in shells that are no login shells; a checkout in /puffer may be somebody else's.
RUN echo '. /etc/profile.d/puffertank-prompt.sh' >>/etc/bash.bashrc \
    && git config --system --add safe.directory /puffer \
    && install -d -g venv -m 2775 /puffer
COPY docker/entrypoint docker/healthcheck /opt/puffertank/
COPY docker/tank /usr/local/bin/

# What the installation reads comes first: a change of other Python files installs nothing again.
# The path is the one of compose and the dev container, so it survives a bind mount of a checkout.
WORKDIR /puffer
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY pufferlib/__init__.py pufferlib/
COPY pufferlib/native pufferlib/native
COPY pufferlib/environments/ocean/native/*.[ch] pufferlib/environments/ocean/native/
ENV PUFFER_REQUIRE_NATIVE=1
# The build directory outlives this step, so a changed source compiles alone. Stale it cannot get:
# the hash of the sources is part of the compiler's command.
RUN --mount=type=cache,target=/tmp/build \
    umask 002 && SKBUILD_BUILD_DIR=/tmp/build \
    pip install --quiet --no-cache-dir --no-deps --no-build-isolation -e .
COPY pufferlib/lock.py /opt/puffertank/
COPY . .

ARG VERSION=0 REVISION=unknown LOCK_HASH=unknown
ENV PUFFERTANK_VERSION=${VERSION} \
    PUFFERTANK_REVISION=${REVISION} \
    PUFFERTANK_LOCK_HASH=${LOCK_HASH}
LABEL org.opencontainers.image.title="PufferTank" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    io.puffertank.lock-hash="${LOCK_HASH}"
EXPOSE 6006
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --start-interval=2s \
    CMD ["/opt/puffertank/healthcheck"]
ENTRYPOINT ["/opt/puffertank/entrypoint"]
CMD ["bash", "-l"]
