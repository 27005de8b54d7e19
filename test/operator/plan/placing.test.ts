import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig } from "../../../src/api/config.ts";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { EngineHost } from "../../../src/engines/engine.ts";
import { serverFacts } from "../../../src/engines/server-facts.ts";
import { devicesBehind } from "../../../src/engines/placement.ts";
import { place } from "../../../src/operator/plan/placing.ts";
import { openRuntimes } from "../../../src/runtimes/registry.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { observed, published, specOf } from "../fixture.ts";
import { ManualClock } from "../../doubles/clock.ts";
import { RuntimeDouble } from "../../doubles/runtime.ts";
import { noDevicesHere } from "../site.ts";

const program = "/opt/llama-server";
const without = serverFacts("--ctx-size", "Available devices:\n  (none)\n");
const withCuda = serverFacts("--ctx-size", "Available devices:\n  CUDA0: a card (81079 MiB, 80552 MiB free)\n");
const server = (facts = withCuda): EngineHost => ({ llamaServer: program, server: facts, embedded: undefined });
const embedded: EngineHost = { llamaServer: undefined, embedded: ["node", "main.ts"] };
const slot = (spec: SlotSpecInput = {}): SlotSpecInput => ({ model: { default: "tiny" }, ...spec });
const images = { shipped: {}, lock: () => ({}), record: async () => undefined };

it("a slot of a cluster is no process unless the installation allows it", async () => {
  await using directory = await tempDir();
  const paths = { SVC_STATE_DIR: directory.path, SVC_CONFIG_DIR: directory.path, SVC_STORE: "kubernetes" };
  const docker = { SVC_RUNTIME: "docker", SVC_DOCKER_HOST: `unix://${directory.path}/none.sock` };
  const places = { isRoot: false, home: directory.path, xdgConfigHome: undefined, xdgStateHome: undefined };
  const refusals = [];
  for (const more of [{}, { SVC_ALLOW_PROCESSES: "1" }]) {
    const { config } = loadConfig({ ...paths, ...docker, ...more }, {}, places);
    assert.ok(config !== undefined);
    await using runtime = await openRuntimes(config, "test", [], { env: {} });
    const dependencies = { machine: noDevicesHere, images, runtime, defaultRuntime: config.runtime, host: embedded };
    refusals.push(place(dependencies, "a", specOf(slot({ runtime: "process" }), "a"), undefined, []).refusal);
  }
  const message =
    "runtime process is not allowed in this cluster: the engine would run beside the operator, with its rights; " +
    "use runtime kubernetes, or start the operator with SVC_ALLOW_PROCESSES=1";
  assert.deepEqual(refusals, [{ reason: "NoRuntime", message }, undefined]);
});

it("a slot that names its program is a process, also where others are containers", () => {
  const runtime = new RuntimeDouble(new ManualClock(0));
  runtime.isContainerEngineUp = true;
  const shipped = { ...images, shipped: { llama: { cpu: { image: "llama" } } } };
  const dependencies = {
    machine: noDevicesHere,
    images: shipped,
    runtime,
    defaultRuntime: "auto",
    host: server(),
  } as const;
  const placedOf = (more: SlotSpecInput): readonly string[] => {
    const { placement, reasons } = place(dependencies, "a", specOf(more, "a"), undefined, []);
    return [placement.runtime, placement.backend, reasons.backend];
  };
  const cpu = "the embedded engine computes on the CPU only";
  assert.deepEqual(placedOf({ enabled: false, program: "embedded" }), ["process", "cpu", cpu]);
  assert.equal(placedOf({ enabled: false })[0], "docker");
});

describe("the backend that auto takes on a machine with an NVIDIA driver", () => {
  const machine = { ...noDevicesHere, devicesFor: () => devicesBehind("cuda") };
  const runtime = new RuntimeDouble(new ManualClock(0));
  const around = { machine, images, runtime, defaultRuntime: "process" } as const;
  const driver = "there is an NVIDIA driver";
  const rows: Readonly<Record<string, readonly [EngineHost, SlotSpecInput, string, reason: string]>> = {
    "a server with CUDA": [server(), slot(), "cuda", driver],
    "a server without it": [server(without), slot(), "cpu", `${program} --list-devices names no GPU`],
    "a server that did not say": [server(serverFacts("", undefined)), slot(), "cuda", driver],
    "the embedded engine": [embedded, slot(), "cpu", "the embedded engine computes on the CPU only"],
    "a backend that is named": [server(without), slot({ backend: "cuda" }), "cuda", "the spec"],
    "a command of the manifest's": [embedded, slot({ command: ["serve"] }), "cuda", driver],
  };
  for (const [name, [host, spec, value, reason]] of Object.entries(rows)) {
    it(`is what the program can: ${name}`, () => {
      const placed = place({ ...around, host }, "a", specOf(spec, "a"), undefined, []);
      assert.deepEqual([placed.placement.backend, placed.reasons.backend], [value, reason]);
    });
  }

  it("stays the same for a running engine, although the next start would use another program", () => {
    const dependencies = { ...around, host: server(without) };
    const placed = place(dependencies, "primary", specOf(), published({ backend: "cuda" }), [observed()]);
    assert.equal(placed.placement.backend, "cuda");
  });

  it("goes with the memory that the program itself sees", () => {
    const memory = () => ({ hostBytes: 1, gpuBytes: 85_520_809_984 });
    const dependencies = { ...around, machine: { ...machine, memory }, host: server() };
    const placed = place(dependencies, "a", specOf(slot(), "a"), undefined, []);
    assert.deepEqual(placed.placement.memory, { hostBytes: 1, gpuBytes: 81_079 * 1024 ** 2 });
  });
});
