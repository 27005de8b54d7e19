import assert from "node:assert/strict";
import { it } from "node:test";
import { BodyRing, type KeptBody } from "../../../src/gateway/telemetry/body-ring.ts";

it("the ring of bodies gives back the newest bodies unchanged and none that was overwritten, at any sizes", () => {
  const ring = new BodyRing();
  const kept: { place: KeptBody; body: Buffer }[] = [];
  let seed = 7;
  const random = (limit: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed % limit;
  };
  for (let nth = 0; nth < 1000; nth += 1) {
    const body = Buffer.alloc(nth % 50 === 0 ? 0 : random(40_000), nth % 251);
    kept.push({ place: ring.keep(body, 30_000), body: body.subarray(0, 30_000) });
    if (nth % 20 !== 0) continue;
    const read = kept.slice(-200).map(({ place }) => ring.read(place));
    const first = read.findIndex((bytes) => bytes !== undefined);
    for (const [at, bytes] of read.entries())
      if (at >= first) assert.deepEqual(bytes, kept.slice(-200)[at]?.body, `body ${at} after ${nth + 1}`);
    const lengths = kept.slice(-200).reduce((sum, { body: { length } }, at) => sum + (at >= first ? length : 0), 0);
    assert.ok(lengths <= 4 * 1024 * 1024 && (nth < 250 || lengths >= 4 * 1024 * 1024 - 60_000 || first === 0));
  }
});
