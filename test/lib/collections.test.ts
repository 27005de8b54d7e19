import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DenseSet } from "../../src/lib/dense-set.ts";
import { FailureLog } from "../../src/lib/failure-log.ts";
import { GatheredBytes } from "../../src/lib/gathered-bytes.ts";
import { KnownTexts } from "../../src/lib/known-texts.ts";
import { Serial } from "../../src/lib/serial.ts";
import { fc } from "../support/fast-check.ts";

interface Item {
  denseIndex: number;
  readonly id: number;
}

it("a DenseSet has the members that a Set has, after any adding and deleting", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(9))), (steps) => {
      const items = Array.from({ length: 10 }, (_, id): Item => ({ denseIndex: -1, id }));
      const [dense, model] = [new DenseSet<Item>(), new Set<Item>()];
      for (const [isAdded, id] of steps)
        for (const set of [dense, model]) {
          const member = items[id] ?? assert.fail();
          if (isAdded) set.add(member);
          else set.delete(member);
        }
      const ids = (members: Iterable<Item>): number[] => [...members].map(({ id }) => id).toSorted((a, b) => a - b);
      assert.deepEqual([ids(dense.toArray()), dense.size], [ids(model), model.size]);
    }),
  );
});

it("gathered bytes are the bytes that came, in however many pieces", () => {
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

describe("KnownTexts", () => {
  const find = (texts: KnownTexts, spelled: string): string | undefined => {
    const bytes = Buffer.from(`[${spelled}]`);
    return texts.find(bytes, 1, bytes.length - 1);
  };
  const keep = (texts: KnownTexts, spelled: string, text: string): void => {
    const bytes = Buffer.from(`[${spelled}]`);
    texts.keep(bytes, 1, bytes.length - 1, text);
    bytes.fill(0);
  };

  it("never confuses two texts that share a place in the table", () => {
    const texts = new KnownTexts();
    const names = Array.from({ length: 1000 }, (_, nth) => `name-${nth}`);
    for (const name of names) keep(texts, `"${name}"`, name);
    const kept = names.filter((name) => {
      const found = find(texts, `"${name}"`);
      assert.ok(found === undefined || found === name);
      return found !== undefined;
    });
    assert.ok(kept.length > 0 && kept.length <= 64);
  });
});

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

it("FailureLog reports a lasting failure when it begins, each minute, and when it ends", () => {
  const told: string[] = [];
  let now = 0;
  const failureLog = new FailureLog({
    onFailing: (error) => told.push(String(error)),
    onEnd: () => told.push("ended"),
    now: () => now,
  });
  failureLog.succeeded();
  assert.deepEqual(told, []);
  for (; now < 61_000; now += 1000) failureLog.failed(`full at ${now}`);
  assert.deepEqual(told, ["full at 0", "full at 60000"]);
  failureLog.succeeded();
  failureLog.succeeded();
  assert.deepEqual(told.splice(0), ["full at 0", "full at 60000", "ended"]);
  failureLog.failed("full again");
  assert.deepEqual(told, ["full again"]);
});
