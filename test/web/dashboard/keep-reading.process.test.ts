import assert from "node:assert/strict";
import { it, mock } from "node:test";
import { keepReading, steadyMs, type Screen } from "../../../web/dashboard/keep-reading.ts";
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
    read: async (_signal, opened) => {
      opened();
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

it("a stream that answers and then fails is read after growing pauses, until one has been open for a while", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const stop = new AbortController();
    let [reads, worked] = [0, 0];
    let fail = (): void => assert.fail("nothing is read");
    const done = keepReading({
      stop: stop.signal,
      read: async (_signal, opened) => {
        reads += 1;
        opened();
        await new Promise<void>((_resolve, reject) => (fail = () => reject(new Error("no"))));
      },
      works: () => (worked += 1),
      ended: () => true,
      screen: new ScreenDouble(),
      pauseMs: { shortest: 500, longest: 2000 },
    });
    const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    /** The pause after the stream that is open fails. */
    const pause = async (): Promise<number> => {
      await settled();
      const before = reads;
      fail();
      await settled();
      for (let ms = 0; ; ms += 100) {
        if (reads > before || ms > 60_000) return ms;
        mock.timers.tick(100);
        await settled();
      }
    };
    const pauses: number[] = [];
    for (let count = 0; count < 4; count += 1) pauses.push(await pause());
    assert.deepEqual([pauses, worked], [[500, 1000, 2000, 2000], 0]);
    mock.timers.tick(steadyMs);
    assert.equal(worked, 1);
    assert.equal(await pause(), 500);
    stop.abort();
    fail();
    await done;
  } finally {
    mock.timers.reset();
  }
});
