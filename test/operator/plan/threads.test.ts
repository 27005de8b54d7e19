import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Placement } from "../../../src/engines/engine.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../../src/api/slot.ts";
import { threadsOf } from "../../../src/operator/plan/threads.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { SourceDouble } from "../../doubles/state.ts";
import { epoch } from "../fixture.ts";

type Where = Pick<Placement, "runs" | "isElsewhere" | "isOnThisMachine">;

const asProcess: Where = runningIn("process");
const asContainer: Where = runningIn("docker");
const asPod: Where = runningIn("kubernetes");
const asPodHere: Where = { ...asPod, isOnThisMachine: true };

/** Of a slot on the processor of a machine of so many cores, beside so many others that are always loaded. */
function threads(cores: number, spec: SlotSpecInput, where: Where, others = 0): SlotInput["threads"] {
  const source = new SourceDouble(() => epoch);
  for (let other = 0; other < others; other++) source.save(`other-${other}`, { model: { default: "m" } });
  const machine = { cores: () => ({ count: cores, what: `${cores} cores` }) };
  const slot = completeSlot("a", slotSpecSchema.parse({ model: { default: "tiny" }, ...spec }));
  return threadsOf({ published: new Map(), cores, machine, source }, "a", slot, { ...where, backend: "cpu" }, []);
}

describe("threads of an engine whose processors are limited", () => {
  const two = { resources: { cpus: 2 } } as const;
  const cases: readonly [title: string, got: SlotInput["threads"], value: number, reason: RegExp][] = [
    ["a container has its limit's", threads(16, two, asContainer), 2, /^resources\.cpus allows 2 cores: more threads/],
    ["a Pod has its limit's", threads(16, two, asPod), 2, /^resources\.cpus allows 2 cores/],
    ["a Pod on this machine has its limit's", threads(16, two, asPodHere), 2, /^resources\.cpus allows 2 cores/],
    ["a part of a core counts as one", threads(16, { resources: { cpus: 0.5 } }, asPod), 1, /allows 0\.5 cores/],
    ["a part beyond whole cores does not count", threads(16, { resources: { cpus: 3.9 } }, asContainer), 3, /3\.9/],
    [
      "a container has its share of a smaller machine",
      threads(4, { resources: { cpus: 8 } }, asContainer, 2),
      1,
      /^4 cores, less one, shared by 3 processes/,
    ],
    ["a Pod may have more than the operator's node", threads(2, { resources: { cpus: 8 } }, asPod), 8, /allows 8/],
    ["a process has no limit", threads(16, two, asProcess), 15, /^16 cores, less one/],
    [
      "the manifest's number counts before the limit",
      threads(16, { ...two, model: { default: "tiny", threads: 6 } }, asPod),
      6,
      /^the spec$/,
    ],
  ];
  for (const [title, got, value, reason] of cases) {
    it(title, () => {
      assert.equal(got.value, value);
      assert.match(got.reason, reason);
    });
  }
});

describe("threads of a Pod without a limit of processors", () => {
  it("are few, since its node may be another than the measured one", () => {
    assert.deepEqual(threads(16, {}, asPod), {
      value: 4,
      reason:
        "the cores of its Pod's node are not known (4 are few enough): resources.cpus or model.threads gives it more",
    });
  });

  it("are no more than its share of the operator's node, which may be the only one", () => {
    assert.deepEqual(threads(4, {}, asPod, 2), {
      value: 1,
      reason:
        "the cores of its Pod's node are not known (4 cores, less one, shared by 3 processes of llama.cpp, as the " +
        "operator's node has them): resources.cpus or model.threads gives it more",
    });
  });

  it("are those of the node where its models pin it there", () => {
    const { value, reason } = threads(16, {}, asPodHere);
    assert.equal(value, 15);
    assert.match(reason, /^16 cores, less one/);
  });
});
