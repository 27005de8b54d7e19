import assert from "node:assert/strict";
import { it } from "node:test";
import { Serial } from "../../src/lib/serial.ts";

it("Serial runs one task after the other, in order, also after a failed one", async () => {
  const serial = new Serial();
  const log: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = serial.run(async () => {
    log.push("first begins");
    await gate.promise;
    log.push("first ends");
    throw new Error("no");
  });
  const failed = assert.rejects(first, /no/);
  const second = serial.run(async () => {
    log.push("second");
    return 2;
  });
  const settled = serial.settled().then(() => log.push("settled"));
  await Promise.resolve();
  assert.deepEqual(log, ["first begins"]);
  gate.resolve();
  await failed;
  assert.equal(await second, 2);
  await settled;
  assert.deepEqual(log, ["first begins", "first ends", "second", "settled"]);
});
