import { pbkdf2 } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { writeJsonNow } from "../../../src/lib/atomic-file.ts";
import { publishedSlot, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";

/** Keeps Node's pool of threads busy, so that each step of others through it takes a while. */
function busyPool(): Disposable {
  let isOver = false;
  const work = (): void => {
    if (!isOver) pbkdf2("a", "b", 5000, 32, "sha256", work);
  };
  for (let index = 0; index < 4; index++) work();
  return { [Symbol.dispose]: () => void (isOver = true) };
}

// An operator may publish at any moment while a gateway starts, and nothing more for hours.
it("sees a change at every step of its start", async () => {
  using _busy = busyPool();
  for (let steps = 0; steps < 8; steps++) {
    let publishing: Promise<void> | undefined;
    await using gateway = await startGateway({
      onStart: (stateDir) => {
        publishing = (async () => {
          for (let step = 0; step < steps; step++) await stat(stateDir);
          const slot = publishedSlot("primary", { port: 9 }, 1000);
          writeJsonNow(join(stateDir, "slots/primary.json"), JSON.stringify(slot));
        })();
      },
    });
    await publishing;
    const isSeen = (): boolean => gateway.running.seenRevision("primary") === 1000;
    await until(`the gateway sees what was published ${steps} steps into its start`, isSeen);
  }
});
