# What a clone can do. `make help` lists it.
SHELL := /bin/sh
NODE := node_modules/node/bin/node
RUN := $(NODE) --disable-warning=ExperimentalWarning
TESTS := $(wildcard test/api test/lib test/store test/engines test/runtimes test/models test/operator test/gateway test/main test/cli test/structure test/embedded test/hack test/e2e)

.DEFAULT_GOAL := help
.PHONY: help setup run test verify generate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

setup: node_modules/.setup engines/node_modules/.setup ## install Node 24, the packages and the embedded engine

node_modules/.setup: package.json package-lock.json
	@command -v npm >/dev/null || { echo "make setup: npm is missing; on Debian: apt-get install nodejs npm (Node 20 or newer)" >&2; exit 1; }
	@echo "installing packages (about 300 MB, Node 24 among them)"
	@npm install --no-save --no-fund --no-audit --loglevel=error
	@test -x $(NODE) || npm install --no-save --no-fund --no-audit --loglevel=error --ignore-scripts=false node@24
	@$(NODE) -e 'if (+process.versions.node.split(".")[0] < 24) process.exit(1)' || { echo "make setup: Node 24 was not installed" >&2; exit 1; }
	@touch $@

engines/node_modules/.setup: node_modules/.setup engines/package.json engines/package-lock.json
	@SVC_STATE_DIR=/nonexistent SVC_CONFIG_DIR=/nonexistent bin/berth engine install embedded
	@touch $@

run: setup ## start everything with a tiny model: MODEL=/path/to/real.gguf for a real one
	@exec $(RUN) hack/run.ts

test: setup ## all tests that need Node alone
	@$(RUN) --test --test-concurrency=2 $(foreach dir,$(TESTS),"$(dir)/**/*.test.ts")

verify: setup ## types, lint, format, dead code, generated files
	@$(NODE) node_modules/typescript/bin/tsc
	@PATH="$(CURDIR)/node_modules/node/bin:$$PATH" node_modules/.bin/oxlint --type-aware --deny-warnings src test hack engines/src
	@$(NODE) node_modules/prettier/bin/prettier.cjs --check --log-level warn .
	@$(NODE) node_modules/knip/bin/knip.js
	@$(RUN) hack/generate.ts --check

generate: setup ## write CRDs, schemas and the reference page anew
	@$(RUN) hack/generate.ts

clean: ## remove what was built and the example run
	@rm -rf dist .run .cache *.tgz
