# The server as a static binary in an image with certificates, time zones and an
# unprivileged user, and nothing else: no shell, no package manager.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/go/build-cache \
    CGO_ENABLED=0 GOCACHE=/go/build-cache go build -trimpath -ldflags='-s -w' -o /out/onceward ./cmd/onceward
# A folder that a volume takes its owner from.
RUN mkdir /out/data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/onceward /onceward
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENTRYPOINT ["/onceward"]
CMD ["serve"]
