# GO_VERSION is the compiler's.
ARG GO_VERSION=1.26

# build runs on the building machine and compiles for the target.
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ARG COMMIT=unknown
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
    -o /oncegate ./cmd/oncegate

# The image holds the binary and certificates to trust, nothing else.
#   docker build --build-arg VERSION=0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) -t oncegate .
FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="oncegate" \
      org.opencontainers.image.description="Idempotence in front of a Kafka cluster" \
      org.opencontainers.image.source="https://github.com/oncegate/oncegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /oncegate /oncegate
# By number: Kubernetes' runAsNonRoot can't look a name up in an image that has
# no /etc/passwd.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s CMD ["/oncegate", "check"]
ENTRYPOINT ["/oncegate"]
