import { nameOfStart } from "../../api/engine-identity.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { Observed } from "../../api/workload.ts";
import type { ProbeTarget } from "../../engines/engine.ts";
import type { Clock } from "../queue.ts";
import type { Prober } from "../slot-memory.ts";

/** A timer may fire this much before its time. */
const earlyMs = 50;

/** Calls `send` once per interval from now on, and for the next time once it has resolved. Ends when disposed. */
export function startProber(
  process: Observed,
  target: ProbeTarget,
  probe: SlotSpec["probe"],
  {
    clock,
    send,
  }: {
    readonly clock: Clock;
    /** Never rejects. */
    readonly send: (process: Observed, target: ProbeTarget, timeoutMs: number) => Promise<void>;
  },
): Prober {
  let now = { process, target, probe };
  let timer: Disposable | undefined;
  let isOver = false;
  const next = (): void => {
    if (isOver) return;
    const time = clock.now().getTime();
    timer = clock.after(nextProbe(time, now) - time, () => void tick());
  };
  const tick = async (): Promise<void> => {
    timer = undefined;
    await send(now.process, now.target, now.probe.timeoutSeconds * 1000);
    next();
  };
  next();
  return {
    process: nameOfStart(process.id, process.startedAt),
    follow(seen, otherTarget, otherProbe) {
      const isOther = otherProbe.intervalSeconds !== now.probe.intervalSeconds;
      now = { process: seen, target: otherTarget, probe: otherProbe };
      // A probe under way goes on with the new interval by itself.
      if (!isOther || timer === undefined) return;
      timer[Symbol.dispose]();
      next();
    },
    [Symbol.dispose]() {
      isOver = true;
      timer?.[Symbol.dispose]();
    },
  };
}

/** The next probe of an engine, in milliseconds of the wall clock: on a whole second, when many are probed together. */
function nextProbe(nowMs: number, { probe }: Pick<SlotSpec, "probe">): number {
  const intervalMs = probe.intervalSeconds * 1000;
  const atMs = nowMs + intervalMs;
  return intervalMs < 1000 ? atMs : Math.floor((atMs + earlyMs) / 1000) * 1000;
}
