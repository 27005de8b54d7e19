import { useEffect, useState } from "preact/hooks";
import { request } from "../shared/api.ts";

/** Between two readings, in milliseconds; a hidden page reads none. */
const restMs = 2000;
const kept = 45;
const counter = /^berth_tokens_total\{([^}]*)\} ([0-9.e+]+)/gm;

/** Tokens a second that each slot produced, oldest first, as long as the page is shown. */
export function useTokenRates(): ReadonlyMap<string, readonly number[]> {
  const [rates, setRates] = useState<ReadonlyMap<string, readonly number[]>>(new Map());
  useEffect(() => {
    const stop = new AbortController();
    let last: { readonly atMs: number; readonly totals: ReadonlyMap<string, number> } | undefined;
    const read = async (): Promise<void> => {
      if (document.hidden) return;
      const text = await (await request("/api/metrics", { signal: stop.signal })).text();
      const atMs = performance.now();
      const totals = tokensOut(text);
      const before = last;
      last = { atMs, totals };
      if (before === undefined) return;
      setRates(
        (known) =>
          new Map(
            [...totals].map(([slot, total]) => {
              const seconds = (atMs - before.atMs) / 1000;
              const rate = Math.max(0, total - (before.totals.get(slot) ?? total)) / seconds;
              return [slot, [...(known.get(slot) ?? []), rate].slice(-kept)] as const;
            }),
          ),
      );
    };
    // One that cannot be read is a gap: the connection's own line says what is wrong.
    const tick = (): void => void read().catch(() => undefined);
    tick();
    const timer = setInterval(tick, restMs);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, []);
  return rates;
}

/** By slot: the tokens that its engine has produced since the gateway started. */
export function tokensOut(metrics: string): ReadonlyMap<string, number> {
  const totals = new Map<string, number>();
  for (const [, labels = "", value] of metrics.matchAll(counter)) {
    if (!labels.includes('direction="out"')) continue;
    const slot = /slot="([^"]*)"/.exec(labels)?.[1];
    if (slot !== undefined) totals.set(slot, (totals.get(slot) ?? 0) + Number(value));
  }
  return totals;
}
