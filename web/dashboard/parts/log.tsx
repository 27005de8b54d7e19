import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, request } from "../../shared/api.ts";
import { events } from "../../shared/sse.ts";
import { LogText } from "./log-text.ts";

/** The live log of a slot: follows its end unless a person has scrolled up. */
export function LogView({ at }: { readonly at: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  const [failure, setFailure] = useState("");
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const view = box.current;
    if (view === null) return undefined;
    const text = new LogText(view);
    let frame = 0;
    const draw = (): void => {
      frame = 0;
      text.draw();
    };
    const read = async (): Promise<void> => {
      const response = await request(`${at}?follow=1&tail=300`, { signal: stop.signal });
      setFailure("");
      if (response.body === null) return;
      for await (const { data } of events(response.body)) {
        if (data === "") continue;
        const line: { readonly line?: string } = JSON.parse(data);
        text.add(line.line ?? "");
        if (frame === 0) frame = requestAnimationFrame(draw);
      }
      setFailure("The log has ended: the server has closed it.");
    };
    read().catch((error: unknown) => {
      if (!stop.signal.aborted) setFailure(messageOf(error));
    });
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [at, attempt]);
  return (
    <>
      <pre class="log" role="log" aria-label="Log of the engine" tabIndex={0} ref={box} />
      {failure !== "" && (
        <p role="status">
          {failure}{" "}
          <button type="button" onClick={() => setAttempt(attempt + 1)}>
            Follow again
          </button>
        </p>
      )}
    </>
  );
}
