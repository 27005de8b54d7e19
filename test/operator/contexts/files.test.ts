import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { completeSlot, slotSpecSchema } from "../../../src/api/slot.ts";
import { Desk, keeping } from "./desk.ts";

const withoutPlace = ["/bin/sh", "--port", "8081", "--model", "/tiny"];

describe("the files of saved contexts", () => {
  it("belong to one replica each, which share the limit", async () => {
    await using desk = await Desk.open();
    const spec = keeping({ maxBytes: 10_000 }, { replicas: 2 });
    await desk.save([400], { spec });
    const files = async () => [(await desk.files(0)).length, (await desk.files(1)).length];
    await desk.save([600], { spec, ordinal: 1 });
    assert.deepEqual(await files(), [1, 0], "6040 bytes are more than half");
    await desk.save([300], { spec, ordinal: 1 });
    assert.equal((await desk.restore({ spec, ordinal: 1 })).tokens[0], 300);
    assert.deepEqual(await files(), [1, 0]);
  });

  const ends: readonly (readonly [string, (desk: Desk) => Promise<void>, left: RegExp])[] = [
    [
      "a replica that is not wanted",
      async ({ contexts }) => await contexts.sweep(() => keeping()),
      /^main\.json main\/\S+$/,
    ],
    [
      "the setting",
      async ({ contexts }) =>
        await contexts.sweep(() => completeSlot("primary", slotSpecSchema.parse({ model: { default: "tiny" } }))),
      /^$/,
    ],
    ["the slot", async ({ contexts }) => await contexts.sweep(() => undefined), /^$/],
    ["the slot, at once", async ({ contexts }) => await contexts.forget("primary"), /^$/],
    [
      "their time",
      async (desk) => {
        desk.pass(25 * 3600);
        await desk.contexts.sweep(() => keeping({}, { replicas: 2 }));
      },
      /^main-1\.json main\.json$/,
    ],
  ];
  for (const [what, end, expected] of ends) {
    it(`go with ${what}`, async () => {
      await using desk = await Desk.open();
      await desk.save([500]);
      await desk.save([500], { spec: keeping({}, { replicas: 2 }), ordinal: 1 });
      await end(desk);
      const left = await readdir(join(desk.stateDir, "contexts/primary"), { recursive: true }).catch(() => []);
      assert.match(
        left
          .filter((name) => name.includes("."))
          .toSorted()
          .join(" "),
        expected,
      );
    });
  }

  it("are left out where the model was removed meanwhile: no engine starts with a directory that is not there", async () => {
    await using desk = await Desk.open();
    desk.models.clear();
    assert.deepEqual((await desk.start([0])).started.command, withoutPlace);
  });

  it("are left out where the directory cannot be made: the engine starts all the same", async () => {
    await using desk = await Desk.open();
    await writeFile(join(desk.stateDir, "contexts"), "in the way");
    assert.deepEqual((await desk.start([0])).started.command, withoutPlace);
    assert.match(desk.log.join(), /starts without a place for its context/);
  });
});
