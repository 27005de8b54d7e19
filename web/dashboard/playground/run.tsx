import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiFailure, messageOf } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";
import { shortTime } from "../../shared/format.ts";
import { Code } from "./code.tsx";
import type { Example } from "./example.ts";

type State<T> =
  | { readonly is: "resting" }
  | { readonly is: "busy" }
  /** `status`: of the answer; 0: there was none. */
  | { readonly is: "failed"; readonly message: string; readonly status: number; readonly ms: number }
  | { readonly is: "done"; readonly value: T; readonly ms: number };

export interface Run<T> {
  readonly state: State<T>;
  readonly start: () => void;
  readonly stop: () => void;
}

/** One request at a time, which a person starts and may stop; it ends with the page. */
export function useRun<T>(task: (signal: AbortSignal) => Promise<T>): Run<T> {
  const [state, setState] = useState<State<T>>({ is: "resting" });
  const current = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => current.current?.abort(), []);
  const start = async (): Promise<void> => {
    const abort = new AbortController();
    current.current?.abort();
    current.current = abort;
    setState({ is: "busy" });
    const began = performance.now();
    const took = (): number => performance.now() - began;
    try {
      const value = await task(abort.signal);
      if (!abort.signal.aborted) setState({ is: "done", value, ms: took() });
    } catch (error) {
      if (abort.signal.aborted) return;
      const status = error instanceof ApiFailure ? error.status : 0;
      setState({ is: "failed", message: messageOf(error, nextStep), status, ms: took() });
    }
  };
  return {
    state,
    start: () => void start(),
    stop: () => {
      current.current?.abort();
      setState({ is: "resting" });
    },
  };
}

function nextStep({ status, code }: ApiFailure): string | undefined {
  switch (code === "no_answer" ? 502 : status) {
    case 404:
      return "Choose another model; the page Overview shows what runs.";
    case 413:
      return "Send less at once.";
    case 502:
    case 504:
      return "The slot's page has the log of its engine.";
    default:
      return undefined;
  }
}

/** A request and the part of its answer that has come; undefined: none has. It stays after Stop and after a failure. */
interface Asked<T> {
  readonly run: Run<T>;
  readonly soFar?: JSX.Element | undefined;
}

interface FormProps<T> extends Asked<T> {
  /** The request that the fields describe; undefined: a field must be corrected first. */
  readonly example: Example | undefined;
  /** The name of the button that sends the request. */
  readonly action: string;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
  readonly show: (value: T) => JSX.Element;
  /** The status of an answer; left out: 200, since every other status is a failure. */
  readonly statusOf?: (value: T) => number;
  /** Figures of an answer beside its status and time. */
  readonly figuresOf?: (value: T) => string;
  /** The same request to another model, which is sent with the first one, and the names of both. */
  readonly second?: (Asked<T> & { readonly names: readonly [string, string] }) | undefined;
}

/** Fields, a button that sends them, and beside them what came back, or the same request from a program. */
export function RunForm<T>({
  example,
  action,
  disabled = false,
  children,
  second,
  ...first
}: FormProps<T>): JSX.Element {
  const [isCode, setIsCode] = useState(false);
  const runs = second === undefined ? [first.run] : [first.run, second.run];
  const isBusy = runs.some(({ state }) => state.is === "busy");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isBusy || disabled) return;
    setIsCode(false);
    for (const { start } of runs) start();
  };
  const stop = (): void => {
    for (const each of runs) if (each.state.is === "busy") each.stop();
  };
  return (
    <div class="panes">
      <form class="fields card" onSubmit={submit}>
        {children}
        <div class="row">
          <Button isMain isSubmit isOff={isBusy || disabled} isBusy={isBusy}>
            {action}
          </Button>
          {isBusy && (
            <button type="button" onClick={stop}>
              Stop
            </button>
          )}
        </div>
      </form>
      <div class="card answers">
        <span class="segmented" role="group" aria-label="Answer or code">
          <button type="button" aria-pressed={!isCode} onClick={() => setIsCode(false)}>
            Answer
          </button>
          <button type="button" aria-pressed={isCode} onClick={() => setIsCode(true)}>
            Code
          </button>
        </span>
        {isCode &&
          (example === undefined ? (
            <p class="empty">Correct the fields first: they describe no request.</p>
          ) : (
            <Code example={example} />
          ))}
        {/* Kept beside the code: a sound goes on playing. */}
        <div class="answers" hidden={isCode}>
          <Outcome {...first} model={second?.names[0]} />
          {second !== undefined && <Outcome {...first} run={second.run} soFar={second.soFar} model={second.names[1]} />}
        </div>
      </div>
    </div>
  );
}

interface OutcomeProps<T> extends Asked<T>, Pick<FormProps<T>, "show" | "statusOf" | "figuresOf"> {
  /** Named where two models answer. */
  readonly model: string | undefined;
}

function Outcome<T>({ model, run: { state }, soFar, show, statusOf, figuresOf }: OutcomeProps<T>): JSX.Element {
  const title = model === undefined ? "Answer" : `Answer of ${model}`;
  if (state.is === "done")
    return (
      <section aria-label={title}>
        {model !== undefined && <h2>{title}</h2>}
        <Head status={statusOf?.(state.value) ?? 200} ms={state.ms} figures={figuresOf?.(state.value)} />
        {show(state.value)}
      </section>
    );
  return (
    <div>
      {state.is === "failed" && (
        <>
          {state.status !== 0 && <Head status={state.status} ms={state.ms} />}
          <p role="alert">
            {soFar !== undefined && "The answer ended early. "}
            {state.message}
          </p>
        </>
      )}
      {soFar}
      {state.is === "resting" && soFar === undefined && <p class="empty">The answer comes here.</p>}
      {state.is === "busy" && soFar === undefined && (
        <p role="status">Waiting for the answer; a cold slot loads its model first …</p>
      )}
    </div>
  );
}

interface HeadProps {
  readonly status: number;
  readonly ms: number;
  readonly figures?: string | undefined;
}

function Head({ status, ms, figures }: HeadProps): JSX.Element {
  return (
    <p class="row quiet number">
      <span>
        Status <strong class={status < 400 ? "good" : "bad"}>{status}</strong>
      </span>
      <span>{shortTime(ms)}</span>
      {figures !== undefined && <span>{figures}</span>}
    </p>
  );
}
