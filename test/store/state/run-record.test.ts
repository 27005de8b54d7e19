import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { RunRecord } from "../../../src/store/state/run-record.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** Operators one after the other over one state directory, with a clock of their own. */
async function site() {
  const directory = await tempDir();
  const path = join(directory.path, "evil.gguf");
  await writeFile(path, "");
  const clock = { ms: Date.parse("2026-11-28T03:00:00.000Z") };
  return {
    path,
    clock,
    next: async (bootId = "boot") =>
      await RunRecord.open(directory.path, { bootId, now: () => clock.ms, elapsedMs: () => clock.ms }),
    spoil: async () => await writeFile(join(directory.path, "run.json"), "{"),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("the record of an operator's run", () => {
  it("tells the next operator of an end that nobody asked for, for ten minutes", async () => {
    await using at = await site();
    for (let run = 0; run < 3; run++) {
      const record = await at.next();
      assert.equal(record.unexpectedEnds()?.count, run === 0 ? undefined : run);
      record.begin();
      at.clock.ms += 60_000;
    }
    const last = await at.next();
    assert.deepEqual(last.unexpectedEnds(), { count: 3, lastAt: "2026-11-28T03:03:00.000Z" });
    last.begin()[Symbol.dispose]();
    assert.equal((await at.next()).unexpectedEnds()?.count, 3, "a stop is no such end");
    at.clock.ms += 9 * 60_000;
    assert.equal((await at.next()).unexpectedEnds()?.count, 1);
    at.clock.ms += 60_000;
    assert.equal((await at.next()).unexpectedEnds(), undefined);
  });

  it("sets aside the file that was being read, reads it once more, and after a second end no more until it changes", async () => {
    await using at = await site();
    const { path, clock } = at;
    (await at.next()).begin();
    const first = await at.next();
    first.begin();
    first.read("/other.gguf", "1")[Symbol.dispose]();
    first.read(path, "2");
    const second = await at.next();
    assert.deepEqual(
      second.problems().map(({ message }) => message),
      [`${path} is set aside: an operator has ended while it read it; it is read once more, in about a minute`],
    );
    assert.throws(() => second.read(path, "2"), /^Error: an operator has ended while it read it/);
    second.begin();
    clock.ms += 30_000;
    second.read(path, "2");
    const third = await at.next();
    third.begin();
    clock.ms += 3_600_000;
    const message = `2 operators have ended while they read it, so it is not read again; delete it or fetch it again, or \`touch '${path}'\` where the cause was another (kill -9, too little memory)`;
    assert.throws(() => third.read(path, "2"), { message });
    third.read(path, "3")[Symbol.dispose]();
    assert.deepEqual(third.problems(), [], "another file is there now, or it was touched");
  });

  it("blames no file and no operator for a reboot, and an unreadable record is empty", async () => {
    await using at = await site();
    const first = await at.next();
    first.begin();
    first.read(at.path, "2");
    const second = await at.next("another boot");
    assert.deepEqual([second.problems(), second.unexpectedEnds()], [[], undefined]);
    await at.spoil();
    const third = await at.next();
    assert.deepEqual([third.problems(), third.unexpectedEnds()], [[], undefined]);
  });
});
