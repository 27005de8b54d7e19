import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Placement } from "../../../src/engines/engine.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../../src/api/slot.ts";
import { threadsOf } from "../../../src/operator/plan/threads.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { SourceDouble } from "../../doubles/state.ts";
import { epoch } from "../fixture.ts";
import { custom, Site } from "../site.ts";

type Where = Pick<Placement, "runs" | "isElsewhere" | "isOnThisMachine">;

const asProcess: Where = runningIn("process");
const asContainer: Where = runningIn("docker");
const asPod: Where = runningIn("kubernetes");
const asPodHere: Where = { ...asPod, isOnThisMachine: true };

const llama = (more: SlotSpecInput = {}): SlotSpecInput => ({ model: { default: "tiny" }, ...more });
const gpu = (model: SlotSpecInput["model"] = {}): SlotSpecInput =>
  llama({ backend: "cuda", model: { default: "tiny", ...model } });
const cpus = (count: number): SlotSpecInput => ({ resources: { cpus: count } });
const pair: SlotSpecInput = { model: { default: "m", rerank: "ranker" } };
const seven = Object.fromEntries(
  ["b", "c", "d", "e", "f", "g", "h"].map((name) => [name, llama({ load: "onDemand" })]),
);
const two = { b: llama(), c: llama() };

/** Of a slot on the processor of a machine of so many cores, beside other slots. */
function threads(
  cores: number,
  spec: SlotSpecInput,
  where: Where,
  others: Readonly<Record<string, SlotSpecInput>> = {},
) {
  const source = new SourceDouble(() => epoch);
  for (const [name, other] of Object.entries(others)) source.save(name, other);
  const machine = { cores: () => ({ count: cores, what: `${cores} cores` }) };
  const slot = completeSlot("a", slotSpecSchema.parse({ model: { default: "tiny" }, ...spec }));
  return threadsOf({ published: new Map(), cores, machine, source }, "a", slot, { ...where, backend: "cpu" }, []);
}

const alone = "4 cores, less one, which no other process of llama.cpp shares";
const unknown = "the cores of its Pod's node are not known";
const advice = "resources.cpus or model.threads gives it more";
const allowed = (count: string): string => `resources.cpus allows ${count}: more threads would wait for each other`;

type Rows = Readonly<Record<string, readonly [ReturnType<typeof threads>, number, reason: string]>>;
const tables: Readonly<Record<string, Rows>> = {
  "threads of an engine beside others": {
    "one process has all cores but one": [threads(4, {}, asProcess), 3, alone],
    "on-demand slots that are not loaded take nothing": [threads(4, {}, asProcess, seven), 3, alone],
    "a slot that is always loaded has its share": [
      threads(4, {}, asProcess, { b: llama() }),
      1,
      "4 cores, less one, shared by 2 processes of llama.cpp",
    ],
    "a second process has its share": [
      threads(4, {}, asProcess, { b: pair }),
      1,
      "4 cores, less one, shared by 3 processes of llama.cpp",
    ],
    "a slot whose layers are all on a GPU takes nothing": [threads(4, {}, asProcess, { b: gpu() }), 3, alone],
    "slots whose layers may move to the host, or that have a part of them there, have their share": [
      threads(8, {}, asProcess, { b: gpu({ spill: "allow" }), c: gpu({ gpuLayers: 20 }) }),
      2,
      "8 cores, less one, shared by 3 processes of llama.cpp",
    ],
    "who is disabled, or no llama.cpp, has none": [
      threads(4, {}, asProcess, { b: llama({ enabled: false }), c: llama({ command: ["serve"] }), d: custom() }),
      3,
      alone,
    ],
  },
  "threads of an engine whose processors are limited": {
    "a container has its limit's": [threads(16, cpus(2), asContainer), 2, allowed("2 cores")],
    "a Pod has its limit's": [threads(16, cpus(2), asPod), 2, allowed("2 cores")],
    "a Pod on this machine has its limit's": [threads(16, cpus(2), asPodHere), 2, allowed("2 cores")],
    "a part of a core counts as one": [threads(16, cpus(0.5), asPod), 1, allowed("0.5 cores")],
    "a part beyond whole cores does not count": [threads(16, cpus(3.9), asContainer), 3, allowed("3.9 cores")],
    "a container has its share of a smaller machine": [
      threads(4, cpus(8), asContainer, two),
      1,
      "4 cores, less one, shared by 3 processes of llama.cpp",
    ],
    "a Pod may have more than the operator's node": [threads(2, cpus(8), asPod), 8, allowed("8 cores")],
    "a process has no limit": [threads(4, cpus(2), asProcess), 3, alone],
    "the manifest's number counts before the limit": [
      threads(16, { ...cpus(2), model: { default: "tiny", threads: 6 } }, asPod),
      6,
      "the spec",
    ],
  },
  "threads of a Pod without a limit of processors": {
    "are few, since its node may be another than the measured one": [
      threads(16, {}, asPod),
      4,
      `${unknown} (4 are few enough): ${advice}`,
    ],
    "are no more than its share of the operator's node, which may be the only one": [
      threads(4, {}, asPod, two),
      1,
      `${unknown} (4 cores, less one, shared by 3 processes of llama.cpp, as the operator's node has them): ${advice}`,
    ],
    "are those of the node where its models pin it there": [threads(4, {}, asPodHere), 3, alone],
  },
};

for (const [title, rows] of Object.entries(tables)) {
  describe(title, () => {
    for (const [name, [got, value, reason]] of Object.entries(rows))
      it(name, () => assert.deepEqual(got, { value, reason }));
  });
}

it("an on-demand slot that is loaded counts at the next load of another slot, which is not restarted for it", async () => {
  await using site = await new Site().run({ a: llama(), b: llama({ load: "onDemand" }) });
  const seen = (slot: string): unknown[] => [site.state(slot), site.slot(slot).status.decisions["threads"]?.value];
  assert.deepEqual(seen("a"), ["ready", "3"]);
  await site.request("b", "load");
  await site.advance(5);
  assert.deepEqual([seen("a"), seen("b"), site.deeds("a")], [["ready", "3"], ["ready", "1"], ["start main"]]);
  await site.request("a", "restart");
  await site.advance(60);
  assert.deepEqual(seen("a"), ["ready", "1"]);
});
