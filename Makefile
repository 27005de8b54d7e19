# What a clone can do. `make help` lists it.
SHELL := /bin/sh
NODE := node_modules/.bin/node
RUN := $(NODE) --disable-warning=ExperimentalWarning
# Kept compiled code, in a clone of one's own alone: it spares a seventh of the processor time of test/cli, and half of a small file's.
KEPT := $(shell [ ! -O . ] || echo "NODE_COMPILE_CACHE='$${NODE_COMPILE_CACHE:-$(CURDIR)/.cache/compile}'")
TEST := $(KEPT) $(RUN) --test --test-reporter=./test/support/reporter.ts
# Whole programs, with Node alone: `make test-system`.
SYSTEM := e2e embedded hack program
# Suites that need more than Node have targets of their own; every other folder belongs to `make test`.
OTHER_SUITES := bare bench browser clients docker edge gpu k8s llama-server monitoring pack schema site soak
TESTS := $(filter-out $(patsubst %,test/%/,$(SYSTEM) $(OTHER_SUITES) doubles fixtures support),$(wildcard test/*/))

.DEFAULT_GOAL := help
.PHONY: help setup run test test-system test-all llama-server test-llama-server test-clients test-gpu test-docker test-podman kube test-k8s test-edge test-browser pictures pictures-monitoring web test-pull test-monitoring test-schema test-bare test-install test-dockerfile test-soak soak site test-site verify generate images release pack test-pack bench bench-setup clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

setup: ## install Node 24, the packages and the embedded engine; quick when done
	@hack/setup.sh

run: setup ## start everything with a tiny model: MODEL=/path/to/real.gguf, MODEL=qwen3-4b or an address for a real one
	@$(KEPT) exec $(RUN) hack/run.ts

test: setup ## every main path and rule, by Node alone, in four minutes on two cores: PROCESSES=2 for fewer at once
	@$(KEPT) $(RUN) test/support/run.ts --test-timeout=1200000 --test-concurrency=$(or $(PROCESSES),4) $(TESTS)

test-system: setup ## whole programs with the real embedded engine: crashes, restarts, full disks, the command line; Node alone
	@$(TEST) --test-timeout=600000 --test-concurrency=$(or $(PROCESSES),4) $(SYSTEM:%="test/%/**/*.test.ts")

test-all: ## before a large change is done: .ci/run, and all that it leaves out
	@.ci/run test-podman test-install test-monitoring test-edge test-soak test-pack test-clients test-schema test-pull test-dockerfile test-site
	@BERTH_RUNS=2000 $(MAKE) test
	@hack/test-k8s.sh test/k8s/scale.ts

llama-server: ## build a real llama-server, once per version; as root it installs cmake and a compiler
	@hack/llama-server.sh

test-llama-server: setup ## run llama slots on a real llama-server, and its own page in a Chromium; built when there are none yet
	@binary=$$(hack/llama-server.sh) && page=$$(hack/llama-page.sh) && hack/chromium.sh >/dev/null && \
		BERTH_TEST_LLAMA_SERVER=$$binary BERTH_TEST_LLAMA_PAGE=$$page $(TEST) --test-concurrency=1 "test/llama-server/**/*.test.ts"

test-clients: setup ## OpenAI's Codex, the real program, on a slot of each engine (needs the npm registry; skipped without it)
	@binary=$$(hack/llama-server.sh) && BERTH_TEST_CODEX=$$(hack/codex.sh || true) BERTH_TEST_LLAMA_SERVER=$$binary \
		$(TEST) --test-concurrency=1 "test/clients/**/*.test.ts"

test-gpu: setup ## a whole Berth on a real NVIDIA GPU, with a llama-server built for CUDA: BERTH_TEST_LLAMA_SERVER=/path/to/it
	@test/gpu/needs.sh && $(TEST) --test-concurrency=1 --test-timeout=180000 "test/gpu/**/*.test.ts"

test-docker: setup ## containers on a real Docker daemon of the tests' own; needs root, installs Debian's docker.io and docker-compose
	@binary=$$(hack/llama-server.sh) && BERTH_TEST_LLAMA_SERVER=$$binary hack/test-containers.sh docker "test/docker/**/*.test.ts"

test-podman: setup ## the same suite over Podman's socket; needs root, installs Debian's podman
	@binary=$$(hack/llama-server.sh) && BERTH_TEST_LLAMA_SERVER=$$binary hack/test-containers.sh podman \
		test/docker/conformance.test.ts test/docker/faults.test.ts test/docker/broken-pull.test.ts test/docker/pull-words.test.ts test/docker/kept-context.test.ts

kube: ## build a real Kubernetes for the tests, once per version: 8 to 15 CPU minutes; as root it installs Go
	@hack/kube.sh

test-k8s: setup ## against a real etcd, API server and node of the tests' own; needs root, installs Debian's containerd
	@hack/test-k8s.sh

test-edge: setup ## the edge proxy in a real Caddy and nginx on loopback, with an ACME server and a Chromium; as root it installs Debian's
	@hack/chromium.sh >/dev/null && hack/test-edge.sh

test-monitoring: setup ## rules, dashboards and runbooks against a real Prometheus; as root it installs Debian's
	@hack/test-monitoring.sh

test-schema: setup ## hold the gateway against its own OpenAPI document with schemathesis; needs python3 with venv
	@binary=$$(hack/schemathesis.sh) && BERTH_TEST_SCHEMATHESIS=$$binary $(TEST) "test/schema/**/*.test.ts"

test-bare: setup ## follow the README as a newcomer in a bare Debian 13; needs root, installs debootstrap
	@test/bare/readme.sh

test-install: setup ## docs/install.md from a release in a bare Debian 13 booted by systemd; needs root, installs debootstrap and systemd-container
	@test/bare/install.sh

test-dockerfile: setup ## build hack/images/Dockerfile by podman over a base image made here; needs root, installs podman and debootstrap
	@test/bare/dockerfile.sh

test-soak: setup ## thousands of mixed requests, then 90 s of make soak; nothing may be left behind: BERTH_SOAK_REQUESTS=100000 for more
	@$(TEST) "test/soak/**/*.test.ts"
	@BERTH_SOAK_SECONDS=90 $(RUN) test/soak/long.ts

soak: setup ## a whole Berth under load for an hour, with engines and operator killed: BERTH_SOAK_SECONDS=300 for less
	@$(RUN) test/soak/long.ts

test-browser: setup ## the dashboard and the chat page in a real Chromium; as root it installs Debian's
	@hack/chromium.sh >/dev/null && $(TEST) --test-concurrency=3 "test/browser/**/*.test.ts"

site: ## build the documentation as a static site, by Node alone: BASE=/path/ on its server, OUT=directory, else site/dist
	@BASE="$(BASE)" OUT="$(OUT)" hack/site.sh

test-site: setup ## build the site and read it in a real Chromium without a network: search, both looks, a phone (needs the npm registry once)
	@hack/chromium.sh >/dev/null && BASE=/handbook/berth/ OUT=.cache/built-site hack/site.sh
	@$(NODE) node_modules/typescript/bin/tsc -p site
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" node_modules/.bin/oxlint --type-aware --deny-warnings site site/.vitepress
	@$(TEST) "test/site/**/*.test.ts"

pictures: setup ## take the pictures of docs/pictures anew, in a real Chromium
	@hack/chromium.sh >/dev/null && BERTH_TEST_PICTURES=docs/pictures $(TEST) test/browser/pictures.test.ts

pictures-monitoring: setup ## draw the Grafana dashboards of docs/pictures anew from a real Prometheus; as root it installs Debian's
	@BERTH_TEST_PICTURES=docs/pictures hack/test-monitoring.sh --test-name-pattern "every query" test/monitoring/prometheus.test.ts

web: setup ## build the pages of web/; setup does it too, where they have changed

test-pull: setup ## a pull that is killed at 50 random bytes, and resumed each time
	@BERTH_TEST_KILLS=50 $(TEST) test/models/fetch/kill.test.ts

verify: setup ## types, lint, format, dead code, generated files
	@$(NODE) node_modules/typescript/bin/tsc
	@$(NODE) node_modules/typescript/bin/tsc -p web
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" node_modules/.bin/oxlint --type-aware --deny-warnings src test hack engines/src web
	@$(NODE) node_modules/prettier/bin/prettier.cjs --check --log-level warn .
	@$(NODE) node_modules/knip/bin/knip.js
	@$(RUN) hack/generate.ts --check

generate: setup ## write CRDs, schemas and the reference page anew
	@$(RUN) hack/generate.ts

images: setup ## tar files of the images of Berth and of the embedded engine, from local files alone
	@$(RUN) hack/images/build.ts $(DIR)

release: setup ## everything of a release in DIR=release: VERSION=0.2.0, KEY=, URL=, CHANNEL=stable (docs/releasing.md); ONLY=linux-x64 for its archive alone
	@$(RUN) hack/release/main.ts --version "$(VERSION)" --channel "$(CHANNEL)" --url "$(URL)" --key "$(KEY)" --directory "$(DIR)" --only "$(ONLY)"

pack: setup ## build the npm package as a .tgz
	@npm pack --ignore-scripts=false --loglevel=error

test-pack: setup ## install the npm package into an empty directory and run it; make a release twice and run it (needs the npm registry)
	@$(TEST) "test/pack/**/*.test.ts"

bench-setup: ## what the benchmark needs: nginx and wrk, by apt
	@hack/bench-setup.sh

bench: setup ## measure against nginx and the bars: BARS=chat,streams for some, AGAINST=COMMIT beside it, ARGS=--help
	@$(RUN) test/bench/main.ts $(if $(BARS),--bars $(BARS)) $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

clean: ## remove what was built and the example run
	@rm -rf dist .run .cache site/dist *.tgz
