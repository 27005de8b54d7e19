import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiFailure, messageOf, needsToken } from "../../shared/api.ts";
import { comebacks } from "../live.ts";

export type Loaded<T> =
  | { readonly state: "loading" }
  | { readonly state: "failed"; readonly message: string; readonly value?: T | undefined }
  | { readonly state: "here"; readonly value: T };

/** Milliseconds after which the server is asked again that could not answer just now. */
const againMs = 5000;

/** A server that is down, full or broken may answer later; another refusal stays. */
const mayPass = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || error.status === 429 || error.status >= 500);

/**
 * Reads something of the server, again whenever `keys` change, when the connection is back, and where the server could not
 * answer, as long as the page is shown and no token is asked for. A page at rest asks nothing: events change `keys`. The last value stays shown while a later attempt fails. A reading that a quicker and later one has overtaken is
 * dropped; one that is merely slow is not, so that slow networks show something.
 */
export function useLoaded<T>(read: () => Promise<T>, keys: readonly unknown[] = []): readonly [Loaded<T>, () => void] {
  const [loaded, setLoaded] = useState<Loaded<T>>({ state: "loading" });
  const [again, setAgain] = useState(0);
  const readings = useRef({ begun: 0, shown: 0, isGone: false });
  useEffect(() => {
    readings.current.isGone = false;
    return () => void (readings.current.isGone = true);
  }, []);
  useEffect(() => {
    // A tab that was hidden reads again once it is live again.
    if (document.hidden && loaded.state === "here") return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isLast = true;
    const now = readings.current;
    now.begun += 1;
    const own = now.begun;
    const show = (next: (last: Loaded<T>) => Loaded<T>): void => {
      if (now.isGone || own < now.shown) return;
      now.shown = own;
      setLoaded(next);
    };
    const retry = (): void => {
      if (!isLast) return;
      timer = setTimeout(
        () => (document.hidden || needsToken.value ? retry() : setAgain((count) => count + 1)),
        againMs,
      );
    };
    read().then(
      (value) => show(() => ({ state: "here", value })),
      (error: unknown) => {
        show((last) => ({
          state: "failed",
          message: messageOf(error),
          ...(last.state === "loading" ? {} : { value: last.value }),
        }));
        if (mayPass(error)) retry();
      },
    );
    return () => {
      isLast = false;
      clearTimeout(timer);
    };
  }, [...keys, again, comebacks.value]);
  return [loaded, () => setAgain((count) => count + 1)];
}

/** Stands where something is read for the first time; it is not seen where that is quick. */
export function Loading(): JSX.Element {
  return (
    <p class="skeleton" role="status">
      <span class="unseen">Loading …</span>
    </p>
  );
}

/** Shows what was read, or says why it is not here. */
export function Show<T>({
  of,
  children,
}: {
  readonly of: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
}): JSX.Element {
  if (of.state === "loading") return <Loading />;
  return (
    <>
      {of.state === "failed" && <p role="alert">{of.message}</p>}
      {of.value !== undefined && children(of.value)}
    </>
  );
}
