import { useEffect, useState } from "preact/hooks";
import { needsToken, request } from "../shared/api.ts";
import { readingOf, trafficOf, withReading, type Reading, type Traffic } from "./traffic.ts";

/** From the end of one reading to the next one, in milliseconds; a hidden page reads none. */
const restMs = 2000;
/** A reading that takes long costs its server much: the rest after it is so many times as long. */
const restPerReading = 5;
const requestTimeoutMs = 20_000;

/** What the gateway answers just now, as long as the page is shown: one reading after the other, never two at once. */
export function useTraffic(): Traffic {
  const [traffic, setTraffic] = useState<Traffic>({ rates: new Map() });
  useEffect(() => {
    const stop = new AbortController();
    let readings: readonly Reading[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      if (document.hidden || needsToken.value) return;
      const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(requestTimeoutMs)]);
      const text = await (await request("/api/metrics", { signal })).text();
      if (stop.signal.aborted) return;
      readings = withReading(readings, readingOf(text, performance.now()));
      setTraffic(({ rates }) => trafficOf(readings, rates));
    };
    const next = async (): Promise<void> => {
      const began = performance.now();
      // One that cannot be read is a gap: the connection's own line says what is wrong.
      await read().catch(() => undefined);
      const tookMs = performance.now() - began;
      if (!stop.signal.aborted) timer = setTimeout(() => void next(), Math.max(restMs, restPerReading * tookMs));
    };
    void next();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, []);
  return traffic;
}
