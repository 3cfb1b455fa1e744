# The targets a contributor needs. `make test` runs everything that CI runs;
# longer runs have targets of their own.

GO ?= go

.PHONY: build test lint unit demo differential modelcheck stamp fuzz bench bench-compare

build: ## the binary, in bin/
	$(GO) build -trimpath -o bin/oncegate ./cmd/oncegate

test: lint unit ## everything: linters, unit tests with the race detector, real Kafka

lint:
	@test -z "$$(gofmt -l .)" || { echo "these files need gofmt -w:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit: export NOT_RUN_FILE := $(CURDIR)/.not-run
unit:
	@rm -f $(NOT_RUN_FILE)
	$(GO) test -race -count=1 -timeout 25m ./... # the binary that test/e2e builds is unknown to the cache
	@if [ -s $(NOT_RUN_FILE) ]; then echo; echo "*** NOT RUN:"; cat $(NOT_RUN_FILE); fi

# Longer runs, by hand.

BATCHES ?= 100000
differential: ## random histories into real Kafka and through Oncegate, answer by answer
	$(GO) test ./test/differential -count=1 -v -timeout 60m -batches $(BATCHES)

modelcheck: ## every state of a small world of the dedup core, and the planted bugs
	$(GO) test ./dedup -count=1 -v -timeout 60m -run 'TestModelCheck' -full

stamp: ## producers without a producer id, of five client libraries, on real Kafka
	$(GO) test ./test/e2e -count=1 -v -timeout 60m -run TestPlainProducers -clients

FUZZTIME ?= 1000000x
fuzz: ## every parser, FUZZTIME (executions, or a time) each
	@for f in Produce RequestHeader ProduceResponse Batch Rewrite ApiVersions; do \
		$(GO) test ./internal/wire -run XXX -fuzz "Fuzz$$f$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

bench: ## Oncegate against a bare frame proxy
	$(GO) run ./test/bench -results docs/results/sizes

bench-compare: ## the same, with the Oncegate of REV
	$(GO) run ./test/bench -subjects direct,frame,track,stamp -compare $(REV)

demo:
	$(GO) run ./cmd/oncegate demo
