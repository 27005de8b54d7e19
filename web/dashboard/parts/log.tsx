import { ArrowDown } from "lucide";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { requestOf } from "../../../src/api/management/call.ts";
import { ApiFailure, messageOf, request, token } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { events } from "../../shared/sse.ts";
import { keepReading } from "../keep-reading.ts";
import { keptLines, LogText } from "./log-text.ts";
import { LogTools } from "./log-tools.tsx";

/** Of a log that is opened. Opened again it is read as far back as it was kept: its lines have no numbers to go on after. */
const firstLines = 300;
/** How long the lines that are shown may take to come again, in milliseconds; without them the log is another one. */
const againMs = 2000;

/**
 * The live log of a slot: follows its end unless a person has scrolled up, and comes back by itself where the stream ends or
 * the page was hidden. Not read out line by line: a reader of the screen goes there.
 */
export function LogView({ slot }: { readonly slot: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  const [failure, setFailure] = useState("");
  const [attempt, setAttempt] = useState(0);
  const [isWrapped, setWrapped] = useState(true);
  const [isBehind, setBehind] = useState(false);
  const [isEmpty, setEmpty] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    const view = box.current;
    if (view === null) return undefined;
    const text = new LogText(view);
    let frame = 0;
    const draw = (): void => {
      frame = 0;
      text.draw();
      setEmpty(view.firstChild === null);
    };
    let tail = firstLines;
    let late: ReturnType<typeof setTimeout> | undefined;
    // A log may have no lines for hours.
    const works = (): void => setFailure("");
    const read = async (signal: AbortSignal, opened: () => void): Promise<void> => {
      const call = { params: { name: slot }, query: { follow: "1", tail } } as const;
      const { path } = requestOf("GET /api/slots/{name}/logs", call);
      const response = await request(path, { signal });
      opened();
      text.begin();
      clearTimeout(late);
      late = setTimeout(() => {
        text.giveUp();
        draw();
      }, againMs);
      tail = keptLines;
      let isNew = true;
      if (response.body === null) return;
      for await (const { event, data } of events(response.body)) {
        if (data === "") continue;
        const said: { readonly line?: string; readonly message?: string } = JSON.parse(data);
        if (event === "error") throw new Error(said.message);
        if (isNew) works();
        isNew = false;
        text.add(said.line ?? "");
        if (frame === 0) frame = requestAnimationFrame(draw);
      }
    };
    const ended = (error: unknown): boolean => {
      setFailure(error === undefined ? "The server has ended the log." : messageOf(error));
      return !(error instanceof ApiFailure && [401, 403].includes(error.status));
    };
    void keepReading({ stop: stop.signal, read, works, ended, screen: document });
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
      clearTimeout(late);
    };
  }, [slot, attempt, token.value]);
  return (
    <>
      <LogTools view={box} slot={slot} isWrapped={isWrapped} onWrap={setWrapped} />
      <pre
        class={isWrapped ? "log" : "log unwrapped"}
        role="log"
        aria-live="off"
        aria-label="Log of the engine"
        tabIndex={0}
        ref={box}
        onScroll={({ currentTarget: view }) => {
          setBehind(view.scrollHeight - view.scrollTop - view.clientHeight > 80);
        }}
      />
      {isEmpty && <p role="status">Nothing is in the log yet.</p>}
      {isBehind && (
        <p>
          <button type="button" onClick={() => box.current?.scrollTo({ top: box.current.scrollHeight })}>
            <Icon of={ArrowDown} />
            To the newest lines
          </button>
        </p>
      )}
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
