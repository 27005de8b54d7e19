import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, type ApiFailure } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";

type State<T> =
  | { readonly is: "resting" }
  | { readonly is: "busy" }
  | { readonly is: "failed"; readonly message: string }
  | { readonly is: "done"; readonly value: T };

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
    try {
      const value = await task(abort.signal);
      if (!abort.signal.aborted) setState({ is: "done", value });
    } catch (error) {
      if (!abort.signal.aborted) setState({ is: "failed", message: messageOf(error, nextStep) });
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
  /** The name of the button that sends the request. */
  readonly action: string;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
  readonly show: (value: T) => JSX.Element;
  /** The same request to another model, which is sent with the first one, and the names of both. */
  readonly second?: (Asked<T> & { readonly names: readonly [string, string] }) | undefined;
}

/** Fields, a button that sends them, and beside them what came back. */
export function RunForm<T>({
  run,
  soFar,
  action,
  disabled = false,
  children,
  show,
  second,
}: FormProps<T>): JSX.Element {
  const runs = second === undefined ? [run] : [run, second.run];
  const isBusy = runs.some(({ state }) => state.is === "busy");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!isBusy && !disabled) for (const { start } of runs) start();
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
      <div class="answers">
        <Outcome
          title={second === undefined ? "Answer" : `Answer of ${second.names[0]}`}
          run={run}
          soFar={soFar}
          show={show}
        />
        {second !== undefined && (
          <Outcome title={`Answer of ${second.names[1]}`} run={second.run} soFar={second.soFar} show={show} />
        )}
      </div>
    </div>
  );
}

interface OutcomeProps<T> extends Asked<T> {
  readonly title: string;
  readonly show: (value: T) => JSX.Element;
}

function Outcome<T>({ title, run: { state }, soFar, show }: OutcomeProps<T>): JSX.Element {
  return (
    <div class="card">
      {state.is === "failed" && (
        <p role="alert">
          {soFar !== undefined && "The answer ended early. "}
          {state.message}
        </p>
      )}
      {state.is !== "done" && soFar}
      {state.is === "resting" && soFar === undefined && <p class="empty">The answer comes here.</p>}
      {state.is === "busy" && soFar === undefined && (
        <p role="status">Waiting for the answer; a cold slot loads its model first …</p>
      )}
      {state.is === "done" && (
        <section aria-label={title}>
          <h2>{title}</h2>
          {show(state.value)}
        </section>
      )}
    </div>
  );
}
