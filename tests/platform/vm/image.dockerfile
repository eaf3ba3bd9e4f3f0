# A small tank for the emulated machine, which takes minutes to load a hundred megabytes. Its start, its
# health check, its login's programs and its labels are the shipped ones; it has no torch.
#
#   docker build -f tests/platform/vm/image.dockerfile .
ARG BASE_IMAGE=puffertank-test/debian:bookworm

FROM ${BASE_IMAGE} AS full
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY docker/apt-install /usr/local/bin/
RUN apt-install openssh-sftp-server procps python3 tini
COPY docker/profile.sh /etc/profile.d/puffertank.sh
RUN groupadd --system venv \
    && python3 -m venv --without-pip /opt/venv \
    && mkdir /opt/puffertank \
    && echo 'none None' >/opt/puffertank/torch
WORKDIR /puffer
COPY pufferlib/*.py pufferlib/
RUN echo /puffer >/opt/venv/lib/python3.11/site-packages/puffer.pth \
    && /opt/venv/bin/python -c 'import pufferlib'
COPY docker/entrypoint docker/healthcheck pufferlib/lock.py /opt/puffertank/
COPY docker/tank /usr/local/bin/
# Nothing is installed here any more, nor read.
RUN rm -rf /var/cache/* /var/lib/{apt,dpkg} /usr/lib/apt /usr/lib/python3.11/{ensurepip,idlelib,lib2to3} \
    /usr/lib/x86_64-linux-gnu/{gconv,libapt*,perl*} /usr/bin/perl* \
    /usr/share/{doc,i18n,info,locale,man,perl,perl5,zoneinfo}

# One layer without what was removed.
FROM scratch
# hadolint ignore=DL3067
COPY --from=full / /
WORKDIR /puffer
ENV LANG=C.UTF-8 \
    PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
    VIRTUAL_ENV=/opt/venv
ARG VERSION=0 LOCK_HASH=unknown
ENV PUFFERTANK_VERSION=${VERSION} \
    PUFFERTANK_LOCK_HASH=${LOCK_HASH}
LABEL org.opencontainers.image.version="${VERSION}" \
    io.puffertank.lock-hash="${LOCK_HASH}"
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --start-interval=2s \
    CMD ["/opt/puffertank/healthcheck"]
ENTRYPOINT ["/opt/puffertank/entrypoint"]
CMD ["bash", "-l"]
