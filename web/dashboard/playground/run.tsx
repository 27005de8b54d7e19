import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, type ApiFailure } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";

type State<T> =
  | { readonly is: "resting" }
  | { readonly is: "busy" }
  | { readonly is: "failed"; readonly message: string }
  | { readonly is: "done"; readonly value: T };

interface Run<T> {
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

interface FormProps<T> {
  readonly run: Run<T>;
  /** The name of the button that sends the request. */
  readonly action: string;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
  readonly show: (value: T) => JSX.Element;
  /** The part of an unfinished answer that has come; undefined: none has. It stays after Stop and after a failure. */
  readonly soFar?: JSX.Element | undefined;
}

/** Fields, a button that sends them, and below what came back. */
export function RunForm<T>({ run, action, disabled = false, children, show, soFar }: FormProps<T>): JSX.Element {
  const { state, start, stop } = run;
  const isBusy = state.is === "busy";
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!isBusy && !disabled) start();
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
      <div class="card">
        {state.is === "failed" && (
          <p role="alert">
            {soFar !== undefined && "The answer ended early. "}
            {state.message}
          </p>
        )}
        {state.is !== "done" && soFar}
        {state.is === "resting" && soFar === undefined && <p class="empty">The answer comes here.</p>}
        {isBusy && soFar === undefined && (
          <p role="status">Waiting for the answer; a cold slot loads its model first …</p>
        )}
        {state.is === "done" && (
          <section aria-label="Answer">
            <h2>Answer</h2>
            {show(state.value)}
          </section>
        )}
      </div>
    </div>
  );
}
