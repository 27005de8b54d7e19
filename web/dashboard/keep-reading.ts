/** What tells whether a page is shown: the document of a browser. */
export interface Screen {
  readonly hidden: boolean;
  addEventListener(type: "visibilitychange", listener: () => void): void;
  removeEventListener(type: "visibilitychange", listener: () => void): void;
}

interface Reading {
  /** Ends the reading for good. */
  readonly stop: AbortSignal;
  /** Reads one stream to its end; calls `opened` once the server has answered. */
  readonly read: (signal: AbortSignal, opened: () => void) => Promise<void>;
  /** A stream has been open for `steadyMs`, after which the next pause is a short one. */
  readonly works?: () => void;
  /** After the stream's end, or with what it has thrown; false: it is not to be read again. */
  readonly ended: (error: unknown) => boolean;
  /** The stream is closed while the page is hidden. */
  readonly hidden?: () => void;
  readonly screen: Screen;
  /** Of the first pause, which doubles up to the longest one. */
  readonly pauseMs?: { readonly shortest: number; readonly longest: number };
}

/** A stream that ends sooner has not worked, whatever has arrived: a server may answer, send a few lines, and fail each time. */
export const steadyMs = 5000;

/**
 * Reads a stream again and again until the signal aborts, as long as the page is shown: a browser has six connections to
 * one host for all its tabs, and the streams of hidden tabs would leave none for a click.
 */
export async function keepReading({ stop, read, works, ended, hidden, screen, pauseMs }: Reading): Promise<void> {
  const { shortest, longest } = pauseMs ?? { shortest: 500, longest: 10_000 };
  let nextMs = shortest;
  while (!stop.aborted) {
    await untilShown(screen, stop);
    if (stop.aborted) return;
    const away = new AbortController();
    const leave = (): void => {
      if (screen.hidden) away.abort();
    };
    screen.addEventListener("visibilitychange", leave);
    let steady: ReturnType<typeof setTimeout> | undefined;
    const opened = (): void => {
      steady = setTimeout(() => {
        nextMs = shortest;
        works?.();
      }, steadyMs);
    };
    let failure: unknown;
    try {
      await read(AbortSignal.any([stop, away.signal]), opened);
    } catch (error) {
      failure = error;
    } finally {
      clearTimeout(steady);
      screen.removeEventListener("visibilitychange", leave);
    }
    if (stop.aborted) return;
    if (away.signal.aborted) {
      hidden?.();
      continue;
    }
    if (!ended(failure)) return;
    await waitFor(stop, (end) => {
      const timer = setTimeout(end, nextMs);
      return () => clearTimeout(timer);
    });
    nextMs = Math.min(longest, nextMs * 2);
  }
}

async function untilShown(screen: Screen, stop: AbortSignal): Promise<void> {
  await waitFor(stop, (end) => {
    const look = (): void => {
      if (!screen.hidden) end();
    };
    look();
    screen.addEventListener("visibilitychange", look);
    return () => screen.removeEventListener("visibilitychange", look);
  });
}

/** Resolves once `begin` calls its argument, or the signal aborts; calls what `begin` has returned then. */
async function waitFor(stop: AbortSignal, begin: (end: () => void) => () => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => resolve(undefined);
  stop.addEventListener("abort", end);
  const clear = begin(end);
  await promise;
  stop.removeEventListener("abort", end);
  clear();
}
