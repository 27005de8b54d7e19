import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { ModelShape } from "../../../src/models/fit/shape.ts";
import { FitRecords } from "../../../src/operator/observe/fit.ts";
import { FitFigureFile } from "../../../src/store/state/fit-figures.ts";
import { input } from "../../engines/fixture.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { shapes } from "../../support/shapes.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { gib, memoryOf } from "../machine.ts";

const model = { ref: "m", files: [{ source: "hf://owner/repo/m.gguf" }], isOpen: false };
const absent = { role: "main", state: "absent", message: "the model m is not on this machine", model } as const;

/** What becomes of a model that is not here, with what is known of its header. */
async function decided(
  remote: ModelShape | "unread" | "reading" | undefined,
  spec: SlotSpecInput = {},
): Promise<{ readonly answer: ReturnType<FitRecords["beforeFetch"]>; readonly asked: number }> {
  await using directory = await tempDir();
  let asked = 0;
  const fail = (error: unknown): never => assert.fail(String(error));
  const records = new FitRecords({
    figures: await FitFigureFile.open(directory.path, fail),
    hardware: () => ({ memory: memoryOf(8 * gib), gpus: [] }),
    remote: {
      known: () => {
        asked += 1;
        return remote;
      },
    },
    onError: fail,
  });
  const host = { llamaServer: undefined, embedded: undefined };
  const engine = input({ spec: { ...spec, model: { default: "m", ...spec.model } }, ref: "m", model: undefined, host });
  return { answer: records.beforeFetch(engine, absent), asked };
}

describe("a model that is not on this machine", async () => {
  const shape = await shapeFrom(shapes.dense, { words: 8 });

  it("is not fetched where its header says that it cannot fit", async () => {
    const { answer } = await decided(shape, { model: { contextSize: 1_000_000 } });
    assert.ok("reason" in answer);
    assert.equal(answer.reason, "DoesNotFit");
    assert.match(
      answer.message,
      /^needs 12\.\d GiB \(.*\) on host, which has 8\.0 GiB \(the machine's memory\); it fits with context_size 524288; m was not fetched$/,
    );
  });

  it("is fetched where it fits, where that is unknown, and where a person has allowed it", async () => {
    assert.equal((await decided(shape, { model: { contextSize: 8192 } })).answer, absent);
    assert.equal((await decided(undefined, { model: { contextSize: 1_000_000 } })).answer, absent);
    assert.equal((await decided(shape, { model: { contextSize: 1_000_000, spill: "allow" } })).answer, absent);
  });

  it("is fetched after its header was read", async () => {
    const { answer } = await decided("unread");
    assert.deepEqual(answer, { ...absent, isHeaderUnread: true });
  });

  it("waits for its header", async () => {
    const { answer } = await decided("reading");
    assert.ok("state" in answer);
    assert.deepEqual([answer.state, answer.message], ["fetching", "the header of the model m is being read"]);
  });

  it("is not checked where the manifest has its own command", async () => {
    const { answer, asked } = await decided(shape, { command: ["mine"], model: { contextSize: 1_000_000 } });
    assert.deepEqual([answer, asked], [absent, 0]);
  });
});
