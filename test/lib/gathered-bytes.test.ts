import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GatheredBytes } from "../../src/lib/gathered-bytes.ts";
import { fc } from "../support/fast-check.ts";

describe("gathered bytes", () => {
  it("are the bytes that came, in however many pieces", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 9000 }), { maxLength: 40 }), (pieces) => {
        const gathered = new GatheredBytes();
        for (const piece of pieces) {
          const own = Buffer.from(piece);
          if (gathered.add(own)) own.fill(0);
        }
        const all = Buffer.concat(pieces);
        assert.equal(gathered.size, all.length);
        assert.ok(gathered.take().equals(all));
        assert.equal(gathered.size, 0);
        gathered.add(Buffer.from("next"));
        assert.equal(gathered.take().toString(), "next");
      }),
    );
  });

  it("of one byte each take little more memory than their length", () => {
    const gathered = new GatheredBytes();
    const count = 400_000;
    const heapBefore = process.memoryUsage().heapUsed;
    for (let index = 0; index < count; index += 1) gathered.add(Buffer.from([index & 0xff]));
    assert.ok(process.memoryUsage().heapUsed - heapBefore < 64 * 1024 * 1024);
    assert.equal(gathered.take().length, count);
  });

  it("give their memory back when they are cleared", () => {
    const gathered = new GatheredBytes();
    for (let index = 0; index < 64; index += 1) gathered.add(Buffer.alloc(65_536));
    const before = process.memoryUsage().arrayBuffers;
    gathered.clear();
    assert.ok(before - process.memoryUsage().arrayBuffers > 3 * 1024 * 1024);
    assert.equal(gathered.size, 0);
  });
});
