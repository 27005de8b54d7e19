import type { BlockCounts } from "./block-writer.ts";

/** The time after which a further connection may be opened. */
const periodMs = 250;

/**
 * Runs `fetch`, which must not reject, once for each connection. The first connection is opened at once, the next ones in
 * turn while the disk is faster than the network: where most blocks wait for the disk, a further connection would only
 * scatter the writes. Resolves once all runs have ended.
 */
export async function openConnections(
  fetch: () => Promise<void>,
  { most, counts }: { readonly most: number; readonly counts: BlockCounts },
): Promise<void> {
  const running = [fetch()];
  const timer = setInterval(() => {
    const isDiskSlower = counts.waits * 2 > counts.blocks;
    counts.blocks = 0;
    counts.waits = 0;
    if (!isDiskSlower && running.length < most) running.push(fetch());
  }, periodMs);
  try {
    // The list may grow meanwhile.
    for (const run of running) await run;
  } finally {
    clearInterval(timer);
  }
}
