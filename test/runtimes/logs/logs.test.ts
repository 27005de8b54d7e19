import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, mkdirSync, renameSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { test } from "node:test";
import { lastLinesOf, LineCutter, lineBytes } from "../../../src/runtimes/logs/log-lines.ts";
import { rotatedFile, rotateLog } from "../../../src/runtimes/logs/log-rotation.ts";
import { logFile, tailLogs } from "../../../src/runtimes/logs/logs.ts";
import { fc } from "../../support/fast-check.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

interface Follower {
  readonly seen: readonly string[];
  has(line: string): Promise<unknown>;
  /** Every line that it saw. */
  end(): Promise<readonly string[]>;
}

/** The logs of `primary` in a state directory. */
async function logs() {
  const directory = await tempDir();
  const fileOf = (slot: string, role: "main" | "rerank", ordinal = 0) =>
    logFile(directory.path, { slot, role, ordinal });
  const main = fileOf("primary", "main");
  const lines = async (options: { tail: number; signal?: AbortSignal }, seen: string[] = []): Promise<string[]> => {
    const follow = options.signal !== undefined;
    for await (const { line } of tailLogs(directory.path, "primary", { ...options, follow })) seen.push(line);
    return seen;
  };
  return {
    path: directory.path,
    main,
    rerank: fileOf("primary", "rerank"),
    fileOf,
    makeDirectory: () => mkdirSync(dirname(main), { recursive: true }),
    tail: async (tail: number) => await lines({ tail }),
    follow: (tail: number): Follower => {
      const left = new AbortController();
      const seen: string[] = [];
      const done = lines({ tail, signal: left.signal }, seen);
      return {
        seen,
        has: async (line) => await until(`the line "${line}" came`, () => seen.includes(line)),
        end: async () => {
          left.abort();
          return await done;
        },
      };
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** Logs with this text in that of `main`, and a follower that has read it. */
async function followed(text: string, tail = 10) {
  const state = await logs();
  state.makeDirectory();
  writeFileSync(state.main, text);
  const follower = state.follow(tail);
  await until("it follows", () => follower.seen.length > 0);
  return { ...state, follower };
}

/** The first half of a rotation. */
function copyAside(path: string): void {
  copyFileSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, rotatedFile(path));
}

function cut(path: string): void {
  copyAside(path);
  truncateSync(path, 0);
}

test("a slot without logs has no lines, and a follower waits for the first", async () => {
  await using state = await logs();
  await rotateLog(state.main, 0);
  assert.deepEqual(await state.tail(10), []);
  const follower = state.follow(10);
  state.makeDirectory();
  writeFileSync(state.main, "first\n");
  await follower.has("first");
  assert.deepEqual(await follower.end(), ["first"]);
});

test("a name that is no slot's name reads no file", async () => {
  await using state = await logs();
  const lines = tailLogs(state.path, "../processes/primary", { tail: 1, follow: false });
  await assert.rejects(async () => {
    for await (const line of lines) assert.fail(line.line);
  });
});

test("tail counts lines, and 0 is none", async () => {
  await using state = await logs();
  state.makeDirectory();
  writeFileSync(state.main, "one\r\ntwo\n\nfour");
  assert.deepEqual(await state.tail(0), []);
  assert.deepEqual(await state.tail(1), ["four"]);
  assert.deepEqual(await state.tail(3), ["two", "", "four"]);
  assert.deepEqual(await state.tail(99), ["one", "two", "", "four"]);
});

test("the role that wrote last comes last, and a tail goes back into the rotated part", async () => {
  await using state = await logs();
  state.makeDirectory();
  writeFileSync(state.main, "from main\n");
  writeFileSync(state.rerank, "from rerank\n");
  utimesSync(state.rerank, new Date(0), new Date(0));
  assert.deepEqual(await state.tail(2), ["from rerank", "from main"]);
  assert.deepEqual(await state.tail(1), ["from main"]);
  writeFileSync(rotatedFile(state.main), "one\ntwo\nthree\n");
  assert.deepEqual(await state.tail(3), ["two", "three", "from main"]);
});

test("a replica's log is followed from its first line, also where the replica comes later", async () => {
  await using state = await logs();
  state.makeDirectory();
  assert.match(state.fileOf("primary", "main", 2), /primary\.main-2\.log$/);
  writeFileSync(state.main, "zero\n");
  writeFileSync(state.fileOf("primary", "main", 1), "one\n");
  writeFileSync(state.fileOf("primary-1", "main"), "another slot's\n");
  const follower = state.follow(10);
  await until("the old lines came", () => follower.seen.length === 2);
  writeFileSync(state.fileOf("primary", "main", 2), "two\n");
  await follower.has("two");
  assert.deepEqual((await follower.end()).toSorted(), ["one", "two", "zero"]);
});

test("an unended line is followed until it ends, and comes once", async () => {
  await using state = await followed("whole\nhal");
  appendFileSync(state.main, "f\n");
  await state.follower.has("half");
  assert.deepEqual(await state.follower.end(), ["whole", "half"]);
});

test("a rotation shows a follower every line once, also those it had not read", async () => {
  await using state = await followed("old\n");
  const expected = ["old"];
  for (let round = 0; round < 3; round++) {
    const lines = Array.from({ length: 200 }, (_, index) => `${round}.${index}`);
    expected.push(...lines, `after ${round}`);
    appendFileSync(state.main, `${lines.join("\n")}\n`);
    // Less than twice the limit: a larger log keeps its newest part alone.
    await rotateLog(state.main, 700);
    appendFileSync(state.main, `after ${round}\n`);
    await state.follower.has(`after ${round}`);
  }
  assert.deepEqual(await state.follower.end(), expected);
});

test("a follower reads the rest of the rotated part", async () => {
  await using state = await followed("old\n");
  // In one turn: the follower cannot look between the lines and the cut.
  appendFileSync(state.main, "unread\nhal");
  cut(state.main);
  appendFileSync(state.main, "f\nafter\n");
  await state.follower.has("after");
  assert.deepEqual(await state.follower.end(), ["old", "unread", "half", "after"]);
});

/** The other role's lines are read after a look at `main`: two of them prove a whole look since. */
async function looked({ rerank, follower }: { readonly rerank: string; readonly follower: Follower }): Promise<void> {
  for (const mark of ["mark 1", "mark 2"]) {
    appendFileSync(rerank, `${mark}\n`);
    await follower.has(mark);
  }
}

test("a follower that looks between copy and cut shows no line twice", async ({ mock }) => {
  await using state = await followed("old\n");
  // The follower waits two seconds at most for the cut, and a busy machine may take longer.
  const now = performance.now();
  mock.method(performance, "now", () => now);
  copyAside(state.main);
  await looked(state);
  truncateSync(state.main, 0);
  appendFileSync(state.main, "new\n");
  await state.follower.has("new");
  assert.deepEqual(await state.follower.end(), ["old", "mark 1", "mark 2", "new"]);
});

test("a follower that looks when a cut log has grown again loses nothing at the next cut", async () => {
  await using state = await followed("old\none\n");
  await state.follower.has("one");
  // In one turn: it sees the log as long as its copy.
  cut(state.main);
  appendFileSync(state.main, "new\ntwo\n");
  await looked(state);
  cut(state.main);
  appendFileSync(state.main, "last\n");
  await state.follower.has("last");
  const lines = (await state.follower.end()).filter((line) => !line.startsWith("mark"));
  assert.deepEqual(lines, ["old", "one", "new", "two", "last"]);
});

test("a log that was emptied by hand is read from its start", async () => {
  await using state = await followed("a long line that was there\n");
  truncateSync(state.main, 0);
  appendFileSync(state.main, "new\n");
  await state.follower.has("new");
  assert.deepEqual(await state.follower.end(), ["a long line that was there", "new"]);
});

test("rotation keeps the log below its limit and everything in the rotated part, also twice at a time", async () => {
  await using state = await logs();
  state.makeDirectory();
  const text = Array.from({ length: 15 }, (_, index) => `line ${index}\n`).join("");
  writeFileSync(state.main, text);
  await rotateLog(state.main, 1000);
  assert.equal(await readFile(state.main, "utf8"), text);
  // The operator looks at it every second, and once more before each start of its engine.
  await Promise.all([rotateLog(state.main, 80), rotateLog(state.main, 80)]);
  assert.equal(await readFile(rotatedFile(state.main), "utf8"), text);
  appendFileSync(state.main, "after\n");
  assert.deepEqual(await state.tail(99), [...text.trimEnd().split("\n"), "after"]);
});

test("of a log that grew without an operator only the newest part is kept", async () => {
  await using state = await logs();
  state.makeDirectory();
  writeFileSync(state.main, `${`${"x".repeat(99)}\n`.repeat(100)}newest\n`);
  await rotateLog(state.main, 1000);
  const lines = await state.tail(5000);
  assert.equal(lines.at(-1), "newest");
  assert.ok(lines.join("\n").length <= 1000);
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
