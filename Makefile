# What a clone can do. `make help` lists it.
SHELL := /bin/sh
NODE := node_modules/.bin/node
RUN := $(NODE) --disable-warning=ExperimentalWarning
TEST := $(RUN) --test --test-reporter=./test/support/reporter.ts
TESTS := $(wildcard test/api test/lib test/store test/engines test/hardware test/runtimes test/models test/operator test/gateway test/main test/cli test/structure test/embedded test/hack test/e2e)

.DEFAULT_GOAL := help
.PHONY: help setup run test llama-server test-llama-server test-docker test-podman test-edge test-schema test-bare test-install test-soak verify generate pack test-pack bench bench-setup clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

setup: ## install Node 24, the packages and the embedded engine; quick when done
	@hack/setup.sh

run: setup ## start everything with a tiny model: MODEL=/path/to/real.gguf for a real one
	@if [ -O . ]; then export NODE_COMPILE_CACHE="$${NODE_COMPILE_CACHE:-$(CURDIR)/.cache/compile}"; fi; exec $(RUN) hack/run.ts

test: setup ## all tests that need Node alone
	@$(TEST) --test-concurrency=3 $(foreach dir,$(TESTS),"$(dir)/**/*.test.ts")

llama-server: ## build a real llama-server, once per version; as root it installs cmake and a compiler
	@hack/llama-server.sh

test-llama-server: setup ## run llama slots on a real llama-server, built when there is none yet
	@binary=$$(hack/llama-server.sh) && BERTH_TEST_LLAMA_SERVER=$$binary $(TEST) --test-concurrency=1 "test/llama-server/**/*.test.ts"

test-docker: setup ## containers on a real Docker daemon of the tests' own; needs root, installs Debian's docker.io
	@binary=$$(hack/llama-server.sh) && BERTH_TEST_LLAMA_SERVER=$$binary hack/test-containers.sh docker "test/docker/**/*.test.ts"

test-podman: setup ## the same suite over Podman's socket; needs root, installs Debian's podman
	@hack/test-containers.sh podman test/docker/conformance.test.ts test/docker/faults.test.ts test/docker/broken-pull.test.ts test/docker/pull-words.test.ts

test-edge: setup ## the edge proxy in a real Caddy and nginx on loopback, with an ACME server; as root it installs Debian's
	@hack/test-edge.sh

test-schema: setup ## hold the gateway against its own OpenAPI document with schemathesis; needs python3 with venv
	@binary=$$(hack/schemathesis.sh) && BERTH_TEST_SCHEMATHESIS=$$binary $(TEST) "test/schema/**/*.test.ts"

test-bare: setup ## follow the README as a newcomer in a bare Debian 13; needs root, installs debootstrap
	@test/bare/readme.sh

test-install: setup ## docs/install.md in a bare Debian 13 booted by systemd; needs root, installs debootstrap and systemd-container
	@test/bare/install.sh

test-soak: setup ## thousands of mixed requests; nothing may be left behind: BERTH_SOAK_REQUESTS=100000 for more
	@$(TEST) "test/soak/**/*.test.ts"

verify: setup ## types, lint, format, dead code, generated files
	@$(NODE) node_modules/typescript/bin/tsc
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" node_modules/.bin/oxlint --type-aware --deny-warnings src test hack engines/src
	@$(NODE) node_modules/prettier/bin/prettier.cjs --check --log-level warn .
	@$(NODE) node_modules/knip/bin/knip.js
	@$(RUN) hack/generate.ts --check

generate: setup ## write CRDs, schemas and the reference page anew
	@$(RUN) hack/generate.ts

pack: setup ## build the npm package as a .tgz
	@npm pack --ignore-scripts=false --loglevel=error

test-pack: setup ## install the npm package into an empty directory and run it (needs the npm registry)
	@$(TEST) "test/pack/**/*.test.ts"

bench-setup: ## what the benchmark needs: nginx and wrk, by apt
	@hack/bench-setup.sh

bench: setup ## measure against nginx and the bars: BARS=chat,streams for some, ARGS=--help
	@$(RUN) test/bench/main.ts $(if $(BARS),--bars $(BARS)) $(ARGS)

clean: ## remove what was built and the example run
	@rm -rf dist .run .cache *.tgz
