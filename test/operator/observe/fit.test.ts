import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { Learning } from "../../../src/operator/act/learning.ts";
import { FitRecords, type FitResult, type FitRequest } from "../../../src/operator/observe/fit.ts";
import { nothingLearned, type DeviceFacts } from "../../../src/operator/plan/learning.ts";
import { FitFigureFile } from "../../../src/store/state/fit-figures.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { input as engineInputOf, model as recordOf } from "../../engines/fixture.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { writeShape } from "../../support/shaped-model.ts";
import { shapes } from "../../support/shapes.ts";
import { specOf, workload } from "../fixture.ts";
import { card, gib, memoryOf } from "../machine.ts";

const mebibyte = 1024 ** 2;
const now = new Date("2026-01-01T12:00:00Z");
const readySince = new Date("2026-01-01T11:00:00Z");
const device = "0000:01:00.0";
const printed = `${device} 172 48 65\nHost 33 0 18\n`;
const contextOf = (tokens: number): Change => ({ flags: `--ctx-size ${tokens} --parallel 1` });
/** With a further model, of which its header says nothing. */
const drafting: Change = { flags: "--ctx-size 4096 --model-draft other.gguf" };

interface Change extends Partial<FitRequest> {
  readonly flags?: string;
  readonly backend?: "cpu" | "cuda";
  readonly spill?: "allow" | "forbid";
  readonly resources?: NonNullable<SlotSpecInput["resources"]>;
  readonly server?: string;
}

interface Site extends AsyncDisposable {
  readonly asked: string[][];
  /** How often the devices were probed. */
  probes: number;
  /** Free on the GPU. */
  free: number;
  /** With everything learned that it depends on. */
  estimate(change?: Change, at?: Date): Promise<FitResult>;
  /** As far as it is known without another step. */
  read(change?: Change): Promise<FitResult>;
  /** The same with what was written so far, as after a restart of the operator. */
  again(): Promise<void>;
}

/** A slot with the file of a model, on a machine of 32 GiB with a GPU. `print`: what its engine says of its needs. */
async function site(print?: string): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const model = join(path, "model.gguf");
  await writeShape(model, shapes.dense);
  const onError = (error: unknown): never => assert.fail(String(error));
  const hardware = (): DeviceFacts => ({
    memory: memoryOf(32 * gib, { available_bytes: 16 * gib }),
    gpus: [card(place.free)],
  });
  const open = async (): Promise<[FitFigureFile, FitRecords, Learning]> => {
    const figures = await FitFigureFile.open(path, onError);
    const learning = new Learning({
      figures,
      probeNow: async () => {
        place.probes += 1;
        return hardware();
      },
      print: async (_server, args) => {
        place.asked.push([...args]);
        return print;
      },
      remote: { read: () => undefined },
      measureProcesses: () => undefined,
      onError,
    });
    return [figures, new FitRecords({ figures, hardware, remote: { known: () => undefined }, onError }), learning];
  };
  const place: Site = {
    asked: [],
    free: 8 * gib,
    probes: 0,
    async estimate(change, at = now) {
      let learned = nothingLearned;
      for (;;) {
        const { unlearned, ...found } = await place.read({ ...change, learned });
        if (unlearned === undefined) return found;
        learned = await learning.learn({ name: "primary", now: at, unlearned }, learned);
      }
    },
    async read({ backend = "cuda", spill, server = model, resources, flags = contextOf(4096).flags, ...request } = {}) {
      const placement = { ...runningIn("process"), backend, images: {}, lock: {} };
      const spec = specOf({
        backend,
        model: { default: "dense", ...(spill === undefined ? {} : { spill }) },
        ...(resources === undefined ? {} : { resources }),
      });
      const record = recordOf({ ref: "dense", path: model, files: [model], fingerprint: "1:1" });
      // A server that is there: its size and time are part of what figures are kept by.
      const host = { llamaServer: server, embedded: undefined };
      const own = ["/opt/llama-server", "--port", "8081", "--model", model];
      return await records.estimate({
        workloads: [workload({ command: [...own, ...(flags ?? "").split(" "), "--cache-ram", "0"] })],
        engineInput: engineInputOf({ spec, ref: "dense", model: record, host, placement }),
        isDue: true,
        readySince: undefined,
        measured: undefined,
        reserved: [],
        learned: nothingLearned,
        ...request,
      });
    },
    async again() {
      await figures.settled();
      [figures, records, learning] = await open();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  let [figures, records, learning] = await open();
  stack.defer(() => figures.settled());
  const owned = stack.move();
  return place;
}

describe("the memory that a slot needs", () => {
  it("is estimated from the header, on the GPU and beside it", async () => {
    await using place = await site();
    const { fit, refusal } = await place.estimate();
    assert.equal(refusal, undefined);
    assert.deepEqual([fit?.stage, fit?.device, fit?.budgetBytes], ["header", device, 8 * gib]);
    assert.deepEqual(
      fit?.devices.map(({ id }) => id),
      [device, "host"],
    );
  });

  it("refuses a start that no GPU here can hold, and says what would fit", async () => {
    await using place = await site();
    const { refusal, fit } = await place.estimate(contextOf(1_048_576));
    assert.equal(refusal?.reason, "DoesNotFit");
    assert.match(refusal.message, /; it fits with context_size 524288, or with gpu_layers 6, which is slower$/);
    assert.ok((fit?.needBytes ?? 0) > 13 * gib);
    assert.equal((await place.estimate(contextOf(524_288))).refusal, undefined);
    const allowed = await place.estimate({ ...contextOf(1_048_576), spill: "allow" });
    assert.equal(allowed.refusal, undefined, "a person has allowed it");
    const running = await place.estimate({ ...contextOf(1_048_576), isDue: false });
    assert.equal(running.refusal, undefined, "what runs is not asked");
  });

  it("is asked of the engine's allocator once for a model, a launch line and an engine", async () => {
    await using place = await site(printed);
    const first = await place.estimate();
    assert.deepEqual(
      first.fit?.stages.map(({ stage }) => stage),
      ["header", "engine"],
    );
    assert.equal(place.asked.length, 1);
    assert.deepEqual(place.asked[0]?.slice(-4), ["--parallel", "1", "--fit-print", "on"]);
    assert.ok(!place.asked[0].includes("--port"));
    await place.estimate({ isDue: false });
    await place.again();
    assert.equal((await place.estimate()).fit?.stage, "engine");
    assert.equal(place.asked.length, 1);
    await place.estimate(contextOf(8192));
    assert.equal(place.asked.length, 2, "another launch line");
  });

  it("is not asked of an allocator again and again that has failed", async () => {
    await using place = await site();
    const after = (seconds: number): Date => new Date(now.getTime() + seconds * 1000);
    for (const seconds of [0, 1, 2, 60, 299]) await place.estimate({}, after(seconds));
    assert.equal(place.asked.length, 1, "at most one try in five minutes");
    await place.estimate(contextOf(8192), after(299));
    assert.equal(place.asked.length, 2, "another launch line is another question");
    await place.estimate({}, after(301));
    assert.equal(place.asked.length, 3);
    await place.estimate({}, after(302));
    assert.equal(place.asked.length, 3);
  });

  it("is the memory that its processes held, and the next start uses that figure, also under another operator", async () => {
    await using place = await site();
    const memory = { hostBytes: 500 * mebibyte, devices: [{ id: device, bytes: 900 * mebibyte }] };
    const measured = { memory, at: new Date("2026-01-01T10:59:59Z") };
    const loading = await place.estimate({ isDue: false, readySince, measured });
    assert.equal(loading.fit?.stage, "header", "it was measured while it loaded");
    const at = new Date("2026-01-01T11:00:09Z");
    const loaded = await place.estimate({ isDue: false, readySince, measured: { memory, at } });
    assert.deepEqual([loaded.fit?.stage, loaded.fit?.needBytes], ["measured", 900 * mebibyte]);
    const estimated = loaded.fit?.stages[0];
    assert.ok(estimated?.errorRatio !== undefined);
    assert.equal(estimated.errorRatio, Math.round((estimated.needBytes / (900 * mebibyte) - 1) * 1e4) / 1e4);
    assert.equal(loaded.fit?.errorRatio, estimated.errorRatio);
    const grown = { memory: { ...memory, devices: [{ id: device, bytes: 950 * mebibyte }] }, at };
    await place.estimate({ isDue: false, readySince, measured: grown });
    await place.estimate({ isDue: false, readySince, measured: { memory, at } });
    await place.again();
    assert.equal((await place.estimate()).fit?.needBytes, 950 * mebibyte, "the most that it held");
    place.free = 940 * mebibyte;
    assert.equal((await place.estimate()).refusal?.reason, "NoMemory");
  });

  it("is not guessed where it is unknown", async () => {
    await using place = await site();
    assert.deepEqual(await place.estimate(drafting), {});
    assert.deepEqual(await place.estimate({ workloads: { reason: "ModelNotFound", message: "" } }), {});
  });

  it("is at least what its manifest reserves, for each of its processes, whatever the header says", async () => {
    await using place = await site();
    const resources = { memoryBytes: 10 * gib };
    const { fit, refusal } = await place.estimate({ backend: "cpu", resources });
    assert.deepEqual([fit?.stage, fit?.device, fit?.needBytes, refusal], ["header", "host", 10 * gib, undefined]);
    assert.deepEqual(fit?.devices, [{ id: "host", needBytes: 10 * gib, budgetBytes: 32 * gib }]);
    const large = await place.estimate({ backend: "cpu", resources: { memoryBytes: 64 * 1024 * gib } });
    assert.deepEqual(large.refusal, {
      reason: "DoesNotFit",
      message:
        "needs 64.0 TiB (resources.memoryBytes) on host, which has 32.0 GiB (the machine's memory); lower resources.memoryBytes of the slot to what it needs",
    });
    const small = await place.estimate({ backend: "cpu", resources: { memoryBytes: 1 } });
    assert.ok((small.fit?.needBytes ?? 0) > 1, "the header's figure is larger");
    const unknown = await place.estimate({ backend: "cpu", resources, ...drafting });
    assert.deepEqual([unknown.fit?.stage, unknown.fit?.needBytes], ["declared", 10 * gib]);
    const onGpu = await place.estimate({ resources, ...drafting });
    assert.deepEqual(onGpu, {}, "the need of the GPU is still unknown");
  });
});
