import type { PublishedOperator } from "../api/status.ts";
import { Outage } from "../lib/outage.ts";
import { everySecond } from "../lib/pulse.ts";
import type { Publisher } from "../store/store.ts";

/**
 * Publishes once a second that the operator lives. A write that fails is tried again, and told as an outage is: readers
 * see the heartbeat age, which is the truth. `beat` publishes out of turn.
 */
export async function startHeartbeat(options: {
  publisher: Publisher;
  read: () => Omit<PublishedOperator, "heartbeat">;
  onFailing: (error: unknown) => void;
  onEnd: () => void;
}): Promise<AsyncDisposable & { beat(): Promise<void> }> {
  const outage = new Outage(options);
  // Never rejects: an operator that cannot tell of itself has engines to keep all the same.
  const beat = async (): Promise<void> => {
    try {
      await options.publisher.writeOperator({ ...options.read(), heartbeat: new Date().toISOString() });
      outage.succeeded();
    } catch (error) {
      outage.failed(error);
    }
  };
  await beat();
  let running: Promise<void> = Promise.resolve();
  let isBusy = false;
  const beats = everySecond(() => {
    if (isBusy) return;
    isBusy = true;
    running = beat().finally(() => {
      isBusy = false;
    });
  });
  return {
    beat,
    async [Symbol.asyncDispose]() {
      beats[Symbol.dispose]();
      await running;
    },
  };
}
