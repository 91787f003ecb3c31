# The server in an image of its own: one static binary, certificates, an empty data folder, no shell, no root.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
# The caches outlive the build: a second one downloads nothing and compiles what was changed. Nothing is downloaded that the binary does not need.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -tags=nomsgpack -ldflags "-s -w -X main.version=${VERSION}" -o /out/tierq ./cmd/tierq
RUN mkdir -p /out/data /out/tmp

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="tierq" \
      org.opencontainers.image.description="A job queue server: paid before unpaid before public" \
      org.opencontainers.image.source="https://github.com/tierq/tierq" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/tierq /tierq
# The new volume takes its owner from here, so the server may write without being root.
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
# Inside a container loopback reaches nobody. With REDIS_URL and MYSQL_DSN the server asks for API keys and prints the first one; embedded it
# refuses to start until there is one (TIERQ_ADMIN_KEY_FILE), or TIERQ_INSECURE=on says that the network around it is trusted.
ENV TIERQ_ADDR=0.0.0.0:8080 \
    TIERQ_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/tierq", "healthcheck"]
ENTRYPOINT ["/tierq"]
