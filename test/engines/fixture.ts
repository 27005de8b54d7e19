import assert from "node:assert/strict";
import type { ModelRecord } from "../../src/api/model.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";
import type { Workload } from "../../src/api/workload.ts";
import { isRefusal, type EngineInput, type EngineRefusal } from "../../src/engines/engine.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { engines } from "../../src/engines/registry.ts";

export const embedded = ["/opt/node", "/opt/engines/src/main.ts"] as const;

export function model(overrides: Partial<ModelRecord> = {}): ModelRecord {
  return {
    ref: "tiny",
    origin: "file",
    source: "file:///models/tiny.gguf",
    path: "/models/tiny.gguf",
    files: ["/models/tiny.gguf"],
    capabilities: ["chat"],
    architecture: "llama",
    created: 0,
    state: "available",
    ...overrides,
  };
}

/** A slot called `primary` that holds `tiny`, on the embedded engine. */
export function input(overrides: Partial<Omit<EngineInput, "spec">> & { spec?: SlotSpecInput } = {}): EngineInput {
  const { spec, ...rest } = overrides;
  const slot = overrides.slot ?? "primary";
  return {
    slot,
    spec: completeSlot(slot, slotSpecSchema.parse({ model: { default: "tiny" }, ...spec })),
    ref: "tiny",
    model: model(),
    rerankModel: undefined,
    threads: 1,
    ports: { main: 8081, rerank: 8082 },
    host: { llamaServer: undefined, embedded },
    placement: { ...runningIn("process"), backend: "cpu", images: {}, lock: {} },
    ...rest,
  };
}

export function workloads(given: EngineInput): readonly Workload[] {
  const made = engines[given.spec.engine].workloads(given);
  assert.ok(!isRefusal(made), JSON.stringify(made));
  return made;
}

export function workload(given: EngineInput): Workload {
  const [first] = workloads(given);
  assert.ok(first !== undefined);
  return first;
}

export function refusal(given: EngineInput): EngineRefusal {
  const made = engines[given.spec.engine].workloads(given);
  assert.ok(isRefusal(made), JSON.stringify(made));
  return made;
}
