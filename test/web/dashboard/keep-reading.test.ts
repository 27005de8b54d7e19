import assert from "node:assert/strict";
import { it } from "node:test";
import { keepReading, type Screen } from "../../../web/dashboard/keep-reading.ts";
import { until } from "../../support/until.ts";

class ScreenDouble extends EventTarget implements Screen {
  hidden = false;
  turn(hidden: boolean): void {
    this.hidden = hidden;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

const pauseMs = { shortest: 1, longest: 4 };
const untilAborted = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));

it("a hidden page has no stream open, and opens it again once it is shown", async () => {
  const stop = new AbortController();
  const screen = new ScreenDouble();
  screen.hidden = true;
  let [open, opened, hidden] = [0, 0, 0];
  const read = async (signal: AbortSignal): Promise<void> => {
    [open, opened] = [open + 1, opened + 1];
    await untilAborted(signal).finally(() => (open -= 1));
  };
  const ended = (): boolean => assert.fail("hiding is no failure");
  const done = keepReading({ stop: stop.signal, read, ended, hidden: () => (hidden += 1), screen, pauseMs });
  assert.deepEqual([open, opened], [0, 0]);
  screen.turn(false);
  await until("it is open", () => open === 1);
  screen.turn(true);
  await until("it is closed", () => open === 0 && hidden === 1);
  screen.turn(false);
  await until("it is open again", () => open === 1 && opened === 2);
  stop.abort();
  await done;
  assert.equal(open, 0);
});

it("a stream that ends or fails is read again, until it is said that it is not", async () => {
  const screen = new ScreenDouble();
  const ends: unknown[] = [];
  const failure = new Error("no");
  await keepReading({
    stop: new AbortController().signal,
    read: async (_signal, works) => {
      works();
      if (ends.length > 0) throw failure;
      await Promise.resolve();
    },
    ended: (error) => ends.push(error) < 3,
    screen,
    pauseMs,
  });
  assert.deepEqual(ends, [undefined, failure, failure]);
});

it("a page that is stopped while it is hidden, or between two streams, ends", async () => {
  const screen = new ScreenDouble();
  const stop = new AbortController();
  const read = (): Promise<void> => Promise.resolve();
  const long = { shortest: 1e6, longest: 1e6 };
  let ends = 0;
  const ended = (): boolean => (ends += 1) > 0;
  const pausing = keepReading({ stop: stop.signal, read, ended, screen, pauseMs: long });
  await until("it pauses", () => ends === 1);
  screen.hidden = true;
  const waiting = keepReading({ stop: stop.signal, read, ended, screen, pauseMs: long });
  stop.abort();
  await Promise.all([pausing, waiting]);
  assert.equal(ends, 1);
});
