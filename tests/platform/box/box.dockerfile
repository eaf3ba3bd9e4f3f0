# A bare Debian 12 server for the tests of provisioning: systemd, an ssh server and nothing more. In
# /srv/repository lie the repositories that stand in for the vendors': Docker's with the real engine of
# Debian 13, the others with small programs that behave like the real ones.
ARG BASE_IMAGE=puffertank-test/debian:bookworm

FROM ${BASE_IMAGE} AS repository
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -yqq --no-install-recommends apt-utils gnupg >/dev/null
WORKDIR /srv/repository/docker
# The mirror that the image itself uses.
RUN sed -e 's/^Suites:.*/Suites: trixie/' /etc/apt/sources.list.d/*.sources \
        | awk -v RS= '!/security/' >/etc/apt/sources.list.d/trixie.sources \
    && apt-get update -qq \
    && apt-get download -qq {docker.io,docker-cli,docker-buildx,docker-compose,containerd}/trixie
# A container's file system in one file, to run something where no image can be pulled.
WORKDIR /tmp/busybox
RUN apt-get download -qq busybox-static/bookworm && dpkg-deb -x busybox-static_*.deb . \
    && for name in sh sleep cat head httpd; do ln -s busybox "bin/$name"; done \
    && mkdir -p tmp && tar -cf /srv/repository/busybox.tar bin tmp
COPY . /build
ARG KERNEL
RUN /build/make-repositories "${KERNEL}"

FROM ${BASE_IMAGE}
# hadolint ignore=DL3008
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends \
        ca-certificates dbus iproute2 kmod libpam-systemd openssh-server systemd-sysv udev >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/test \
    && systemctl mask systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service
COPY --from=repository /srv/repository /srv/repository
COPY tank.conf /etc/tank/tank.conf
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
