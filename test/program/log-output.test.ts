import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { LogOutput } from "../../src/program/log-output.ts";

/** A line of a hundred bytes. */
const line = (name: string): string => `${name.padEnd(99, ".")}\n`;
const turn = (): Promise<void> => Promise.resolve();
describe("the output of a log", () => {
  let written: string[] = [];
  let finish: (() => void)[] = [];
  let output: LogOutput;
  /** The process's listeners, of which each output adds one. */
  const exits = process.listeners("exit");

  beforeEach(() => {
    [written, finish] = [[], []];
    mock.timers.enable({ apis: ["setTimeout"] });
    mock.method(fs, "write", (_fd: number, piece: Buffer, done: (error: null, written: number) => void) => {
      written.push(piece.toString());
      finish.push(() => done(null, piece.length));
    });
    syncBuiltinESMExports();
    output = new LogOutput({ fd: 1, limitBytes: 1_000_000, onLost: () => undefined });
  });

  afterEach(() => {
    mock.timers.reset();
    mock.restoreAll();
    syncBuiltinESMExports();
    for (const listener of process.listeners("exit"))
      if (!exits.includes(listener)) process.removeListener("exit", listener);
  });

  it("writes the first line at once, and those that may wait and follow it closely together", async () => {
    output.write(line("a"), true);
    await turn();
    assert.deepEqual(written, [line("a")]);
    output.write(line("b"), true);
    finish.shift()?.();
    for (const name of ["c", "d"]) {
      await turn();
      output.write(line(name), true);
    }
    await turn();
    assert.equal(written.length, 1);
    mock.timers.tick(100);
    assert.deepEqual(written.slice(1), [line("b") + line("c") + line("d")]);
    finish.shift()?.();
    mock.timers.tick(100);
    output.write(line("e"), true);
    await turn();
    assert.deepEqual(written.slice(2), [line("e")], "after a pause a line waits for nothing");
  });

  it("waits for no more lines than one write takes", async () => {
    output.write(line("a"), true);
    await turn();
    finish.shift()?.();
    for (let count = 0; count < 2700; count += 1) output.write(line("b"), true);
    assert.equal(written.length, 2);
    assert.equal(written[1]?.length, 262_200);
    finish.shift()?.();
    assert.equal(written.length, 2, "the rest is less than that");
    mock.timers.tick(100);
    assert.equal(written.join("").length, 270_100);
  });

  it("lets no line wait that may not, and sends those that wait before it along", async () => {
    output.write(line("a"));
    await turn();
    finish.shift()?.();
    output.write(line("b"), true);
    assert.equal(written.length, 1);
    output.write(line("c"));
    assert.deepEqual(written.slice(1), [line("b") + line("c")], "during the pause");
    output.write(line("d"));
    finish.shift()?.();
    assert.deepEqual(written.slice(2), [line("d")], "after the write that was under way");
    finish.shift()?.();
    output.write(line("e"), true);
    assert.equal(written.length, 3);
    mock.timers.tick(100);
    assert.deepEqual(written.slice(3), [line("e")]);
  });

  it("writes lines of any size and alphabet whole and in their order", async () => {
    const lines = Array.from({ length: 300 }, (_, nth) => `${nth} ${"aß€😀".repeat((nth * 7919) % 15_000)}\n`);
    for (const each of lines) {
      output.write(each, true);
      await turn();
      mock.timers.tick(100);
      for (let done = finish.shift(); done !== undefined; done = finish.shift()) done();
    }
    mock.timers.tick(100);
    // Not `equal`, which would print megabytes.
    assert.ok(written.join("") === lines.join(""));
  });

  it("writes waiting lines when the process ends", async () => {
    const last: string[] = [];
    mock.method(fs, "writeSync", (_fd: number, piece: Buffer) => {
      last.push(piece.toString());
      return piece.length;
    });
    syncBuiltinESMExports();
    output.write(line("a"), true);
    process.listeners("exit").at(-1)?.(0);
    await turn();
    assert.deepEqual([...written, ...last], [line("a")]);
  });

  it("writes what a full pipe did not take when the process ends, and first", async () => {
    const last: string[] = [];
    const again = Object.assign(new Error("again"), { code: "EAGAIN" });
    let isFull = false;
    mock.method(fs, "write", (_fd: number, _piece: Buffer, done: (error: Error | null, written: number) => void) => {
      const error = isFull ? again : null;
      isFull = true;
      done(error, 50);
    });
    mock.method(fs, "writeSync", (_fd: number, piece: Buffer) => {
      last.push(piece.toString());
      return piece.length;
    });
    syncBuiltinESMExports();
    output.write(line("a"));
    await turn();
    output.write(line("b"));
    process.listeners("exit").at(-1)?.(0);
    assert.deepEqual(last, [line("a").slice(50) + line("b")]);
  });

  it("reports the lines that a full disk has lost once it can be written again, and all of them", async () => {
    const onLost = mock.fn();
    const full = Object.assign(new Error("full"), { code: "ENOSPC" });
    let isFull = true;
    mock.method(fs, "write", (_fd: number, piece: Buffer, done: (error: Error | null, written: number) => void) =>
      isFull ? done(full, 0) : done(null, piece.length),
    );
    syncBuiltinESMExports();
    const onDisk = new LogOutput({ fd: 1, limitBytes: 1_000_000, onLost });
    for (const name of ["a", "b"]) {
      onDisk.write(line(name));
      await turn();
      mock.timers.tick(100);
    }
    assert.equal(onLost.mock.callCount(), 0);
    isFull = false;
    onDisk.write(line("c"));
    await turn();
    assert.deepEqual(
      onLost.mock.calls.map((call) => call.arguments),
      [[2]],
    );
  });

  it("counts lines that find no room as lost", async () => {
    const onLost = mock.fn();
    const small = new LogOutput({ fd: 1, limitBytes: 150, onLost });
    for (const name of ["a", "b", "c"]) small.write(line(name), true);
    await turn();
    assert.deepEqual(written, [line("a")]);
    finish.shift()?.();
    assert.deepEqual(onLost.mock.calls[0]?.arguments, [2]);
  });
});
