/** What the gateway has counted until one reading. */
export interface Reading {
  /** Of a clock that never goes back. */
  readonly atMs: number;
  /** Tokens of answers, by slot. */
  readonly tokens: ReadonlyMap<string, number>;
  readonly requests: number;
  /** Requests that were answered with an error; one whose client has left (499) is none. */
  readonly errors: number;
}

export interface Traffic {
  /** Tokens a second that each slot produced, oldest first. */
  readonly rates: ReadonlyMap<string, readonly number[]>;
  /** Undefined before the second reading. */
  readonly perMinute?: number;
  /** Of the requests of the last minute, 0 to 1; undefined without one. */
  readonly errorShare?: number;
}

/** Figures of a slot's line. */
const keptRates = 45;
/** Of which the requests are counted. */
const windowMs = 60_000;
const counter = /^berth_(tokens|requests)_total\{([^}]*)\} ([0-9.e+]+)/gm;

/** The counters of a page of metrics. */
export function readingOf(metrics: string, atMs: number): Reading {
  const tokens = new Map<string, number>();
  let [requests, errors] = [0, 0];
  for (const [, family, labels = "", value] of metrics.matchAll(counter)) {
    if (family === "requests") {
      requests += Number(value);
      const code = Number(/code="(\d*)"/.exec(labels)?.[1]);
      if (code >= 400 && code !== 499) errors += Number(value);
    } else if (labels.includes('direction="out"')) {
      const slot = /slot="([^"]*)"/.exec(labels)?.[1];
      if (slot !== undefined) tokens.set(slot, (tokens.get(slot) ?? 0) + Number(value));
    }
  }
  return { atMs, tokens, requests, errors };
}

/** The readings of the last minute with one more, oldest first. A gateway that has started anew begins anew. */
export function withReading(before: readonly Reading[], now: Reading): readonly Reading[] {
  const last = before.at(-1);
  if (last === undefined || now.requests < last.requests) return [now];
  return [...before.filter(({ atMs }) => now.atMs - atMs <= windowMs), now];
}

/** What the last readings say; `known` has the rates until the reading before the last one. */
export function trafficOf(readings: readonly Reading[], known: Traffic["rates"]): Traffic {
  const [first, before, last] = [readings[0], readings.at(-2), readings.at(-1)];
  if (first === undefined || last === undefined || before === undefined) return { rates: known };
  const seconds = (last.atMs - before.atMs) / 1000;
  const rates = new Map(
    [...last.tokens].map(([slot, total]) => {
      const rate = Math.max(0, total - (before.tokens.get(slot) ?? total)) / seconds;
      return [slot, [...(known.get(slot) ?? []), rate].slice(-keptRates)] as const;
    }),
  );
  const requests = last.requests - first.requests;
  const perMinute = (requests * 60_000) / (last.atMs - first.atMs);
  return { rates, perMinute, ...(requests === 0 ? {} : { errorShare: (last.errors - first.errors) / requests }) };
}
