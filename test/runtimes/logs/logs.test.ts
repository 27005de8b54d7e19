import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { lastLinesOf, LineCutter, lineBytes } from "../../../src/runtimes/logs/log-lines.ts";
import { rotatedFile, rotateLog } from "../../../src/runtimes/logs/log-rotation.ts";
import { logFile, tailLogs } from "../../../src/runtimes/logs/logs.ts";
import { until } from "../../support/until.ts";
import { fc } from "../../support/fast-check.ts";

class State implements Disposable {
  readonly dir = mkdtempSync(join(tmpdir(), "berth-logs-"));
  readonly main = logFile(this.dir, { slot: "primary", role: "main", ordinal: 0 });
  readonly rerank = logFile(this.dir, { slot: "primary", role: "rerank", ordinal: 0 });

  makeDirectory(): void {
    mkdirSync(dirname(this.main), { recursive: true });
  }

  async tail(tail: number): Promise<string[]> {
    const seen: string[] = [];
    for await (const { line } of tailLogs(this.dir, "primary", { tail, follow: false })) seen.push(line);
    return seen;
  }

  follow(tail: number): { seen: string[]; end: () => Promise<void> } {
    const left = new AbortController();
    const seen: string[] = [];
    const done = (async () => {
      for await (const { line } of tailLogs(this.dir, "primary", { tail, follow: true, signal: left.signal }))
        seen.push(line);
    })();
    return {
      seen,
      end: async () => {
        left.abort();
        await done;
      },
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

test("a slot without logs has no lines, and a follower waits for the first", async () => {
  using state = new State();
  assert.deepEqual(await state.tail(10), []);
  const follower = state.follow(10);
  state.makeDirectory();
  writeFileSync(state.main, "first\n");
  await until("the first line came", () => follower.seen.length > 0);
  await follower.end();
  assert.deepEqual(follower.seen, ["first"]);
});

test("a name that is no slot's name reads no file", async () => {
  using state = new State();
  const lines = tailLogs(state.dir, "../processes/primary", { tail: 1, follow: false });
  await assert.rejects(async () => {
    for await (const line of lines) assert.fail(line.line);
  });
});

test("tail counts lines, and 0 is none", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "one\r\ntwo\n\nfour");
  assert.deepEqual(await state.tail(0), []);
  assert.deepEqual(await state.tail(1), ["four"]);
  assert.deepEqual(await state.tail(3), ["two", "", "four"]);
  assert.deepEqual(await state.tail(99), ["one", "two", "", "four"]);
});

test("the role that wrote last comes last", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "from main\n");
  writeFileSync(state.rerank, "from rerank\n");
  utimesSync(state.rerank, new Date(0), new Date(0));
  assert.deepEqual(await state.tail(2), ["from rerank", "from main"]);
  assert.deepEqual(await state.tail(1), ["from main"]);
});

test("a tail continues in the rotated part", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(rotatedFile(state.main), "one\ntwo\nthree\n");
  writeFileSync(state.main, "four\n");
  assert.deepEqual(await state.tail(3), ["two", "three", "four"]);
});

test("a replica's log is followed from its first line, also where the replica comes later", async () => {
  using state = new State();
  state.makeDirectory();
  const replica = (ordinal: number): string => logFile(state.dir, { slot: "primary", role: "main", ordinal });
  assert.match(replica(2), /primary\.main-2\.log$/);
  writeFileSync(state.main, "zero\n");
  writeFileSync(replica(1), "one\n");
  writeFileSync(logFile(state.dir, { slot: "primary-1", role: "main", ordinal: 0 }), "another slot's\n");
  const follower = state.follow(10);
  await until("the old lines came", () => follower.seen.length === 2);
  writeFileSync(replica(2), "two\n");
  await until("the new replica's line came", () => follower.seen.length === 3);
  await follower.end();
  assert.deepEqual(follower.seen.toSorted(), ["one", "two", "zero"]);
});

test("an unended line is followed until it ends, and comes once", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "whole\nhal");
  const follower = state.follow(10);
  await until("the old line came", () => follower.seen.length > 0);
  appendFileSync(state.main, "f\n");
  await until("the rest came", () => follower.seen.length > 1);
  await follower.end();
  assert.deepEqual(follower.seen, ["whole", "half"]);
});

test("a rotation shows a follower every line once, also those it had not read", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "old\n");
  const follower = state.follow(1);
  await until("it follows", () => follower.seen.length > 0);
  const expected = ["old"];
  for (let round = 0; round < 5; round++) {
    const lines = Array.from({ length: 200 }, (_, index) => `${round}.${index}`);
    expected.push(...lines, `after ${round}`);
    appendFileSync(state.main, `${lines.join("\n")}\n`);
    // Less than twice the limit: a larger log keeps its newest part alone.
    await rotateLog(state.main, 700);
    appendFileSync(state.main, `after ${round}\n`);
    await until("the round came", () => follower.seen.includes(`after ${round}`));
  }
  await follower.end();
  assert.deepEqual(follower.seen, expected);
});

test("a follower reads the rest of the rotated part", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "old\n");
  const follower = state.follow(1);
  await until("it follows", () => follower.seen.length > 0);
  // In one turn: the follower cannot look between the lines and the cut.
  appendFileSync(state.main, "unread\nhal");
  copyAside(state.main);
  truncateSync(state.main, 0);
  appendFileSync(state.main, "f\nafter\n");
  await until("it went on", () => follower.seen.includes("after"));
  await follower.end();
  assert.deepEqual(follower.seen, ["old", "unread", "half", "after"]);
});

test("a follower that looks between copy and cut shows no line twice", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "old\n");
  const follower = state.follow(1);
  await until("it follows", () => follower.seen.length > 0);
  copyAside(state.main);
  // The other role's lines are read after a look at this one: two of them prove a whole look since the copy.
  appendFileSync(state.rerank, "mark 1\n");
  await until("it looks", () => follower.seen.includes("mark 1"));
  appendFileSync(state.rerank, "mark 2\n");
  await until("it has looked", () => follower.seen.includes("mark 2"));
  truncateSync(state.main, 0);
  appendFileSync(state.main, "new\n");
  await until("it went on", () => follower.seen.includes("new"));
  await follower.end();
  assert.deepEqual(follower.seen, ["old", "mark 1", "mark 2", "new"]);
});

test("a follower that looks when a cut log has grown again loses nothing at the next cut", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "old\none\n");
  const follower = state.follow(2);
  await until("it follows", () => follower.seen.length > 1);
  // In one turn: it sees the log as long as its copy.
  copyAside(state.main);
  truncateSync(state.main, 0);
  appendFileSync(state.main, "new\ntwo\n");
  appendFileSync(state.rerank, "mark 1\n");
  await until("it looks", () => follower.seen.includes("mark 1"));
  appendFileSync(state.rerank, "mark 2\n");
  await until("it has looked", () => follower.seen.includes("mark 2"));
  copyAside(state.main);
  truncateSync(state.main, 0);
  appendFileSync(state.main, "last\n");
  await until("it went on", () => follower.seen.includes("last"));
  await follower.end();
  const lines = follower.seen.filter((line) => !line.startsWith("mark"));
  assert.deepEqual(lines, ["old", "one", "new", "two", "last"]);
});

/** The first half of a rotation. */
function copyAside(path: string): void {
  copyFileSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, rotatedFile(path));
}

test("a log that was emptied by hand is read from its start", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, "a long line that was there\n");
  const follower = state.follow(1);
  await until("it follows", () => follower.seen.length > 0);
  truncateSync(state.main, 0);
  appendFileSync(state.main, "new\n");
  await until("the new line came", () => follower.seen.includes("new"));
  await follower.end();
  assert.deepEqual(follower.seen, ["a long line that was there", "new"]);
});

test("rotation keeps the log below its limit and everything in the rotated part", async () => {
  using state = new State();
  state.makeDirectory();
  const text = Array.from({ length: 15 }, (_, index) => `line ${index}\n`).join("");
  writeFileSync(state.main, text);
  await rotateLog(state.main, 1000);
  assert.deepEqual(await state.tail(99), text.trimEnd().split("\n"));
  await rotateLog(state.main, 80);
  appendFileSync(state.main, "after\n");
  assert.deepEqual(await state.tail(99), [...text.trimEnd().split("\n"), "after"]);
});

test("of a log that grew without an operator only the newest part is kept", async () => {
  using state = new State();
  state.makeDirectory();
  writeFileSync(state.main, `${"x".repeat(99)}\n`.repeat(1000));
  appendFileSync(state.main, "newest\n");
  await rotateLog(state.main, 1000);
  const lines = await state.tail(5000);
  assert.equal(lines.at(-1), "newest");
  assert.ok(lines.join("\n").length <= 1000);
});

test("a log that does not exist is not rotated", async () => {
  using state = new State();
  await rotateLog(state.main, 0);
  assert.deepEqual(await state.tail(1), []);
});

const text = fc.array(fc.stringMatching(/^[a-zäß€😀 ]{0,20}$/u), { maxLength: 30 });

test("lines are the same however their bytes arrive", () => {
  fc.assert(
    fc.property(text, fc.infiniteStream(fc.integer({ min: 1, max: 9 })), (lines, sizes) => {
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
      const cutter = new LineCutter();
      const seen: string[] = [];
      for (let at = 0; at < bytes.length;) {
        const size = sizes.next().value ?? 1;
        seen.push(...cutter.push(bytes.subarray(at, at + size)));
        at += size;
      }
      assert.deepEqual(seen, lines);
      assert.equal(cutter.flush(), "");
    }),
  );
});

test("the last lines are the end of all lines", () => {
  fc.assert(
    fc.property(text, fc.nat(40), (lines, count) => {
      const found = lastLinesOf(Buffer.from(`${lines.map((line) => `${line}\n`).join("")}rest`), count);
      assert.deepEqual(found.lines, count === 0 ? [] : lines.slice(-count));
      assert.equal(found.rest.toString(), "rest");
    }),
  );
});

test("a line without an end costs bounded memory, and what follows is whole", () => {
  const cutter = new LineCutter();
  for (let round = 0; round < 100; round++) assert.deepEqual(cutter.push(Buffer.alloc(lineBytes, "x")), []);
  const [long, next, ...more] = cutter.push(Buffer.from("yyy\nnext\n"));
  assert.equal(long?.length, lineBytes);
  assert.deepEqual([next, ...more], ["next"]);
});
