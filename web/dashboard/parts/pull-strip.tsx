import type { JSX } from "preact";
import type { PullView } from "../../../src/api/management/pull-views.ts";
import { call } from "../../shared/api.ts";
import { now } from "../../shared/clock.ts";
import { bytes, duration, percent } from "../../shared/format.ts";
import { pulls } from "../live.ts";
import { Action } from "./action.tsx";

/** How long a pull that has ended well, or was cancelled, is still told of, in milliseconds. */
const toldMs = 600_000;

/** Pulls that go on, wait or have failed, and those that ended a moment ago, on top of the page. */
export function PullStrip(): JSX.Element | null {
  const isTold = ({ state, ended_at: ended }: PullView): boolean =>
    state === "failed" || ended === null || now() - Date.parse(ended) < toldMs;
  const all = [...pulls.value.values()].filter(isTold);
  if (all.length === 0) return null;
  return (
    <ul class="pulls" aria-label="Pulls">
      {all.map((pull) => (
        <Pull key={pull.id} pull={pull} />
      ))}
    </ul>
  );
}

const words = {
  queued: "waits for another pull",
  running: "is pulled",
  paused: "is paused",
  completed: "is here",
  failed: "could not be pulled",
  cancelled: "was cancelled",
} as const;

const checkWords = {
  ...words,
  queued: "is to be checked",
  running: "is checked",
  completed: "is whole",
  failed: "has failed its check",
} as const;

function Pull({ pull }: { readonly pull: PullView }): JSX.Element {
  const { model, state, is_check: isCheck } = pull;
  const says = isCheck ? checkWords : words;
  const params = { id: pull.id };
  const isOpen = state === "queued" || state === "running";
  const left = isOpen && pull.eta_seconds !== null ? `, ${duration(pull.eta_seconds)} left` : "";
  const rate = isOpen && pull.bytes_per_second !== null ? `, ${bytes(pull.bytes_per_second)}/s` : "";
  return (
    <li class="card" aria-label={model}>
      <div class="row">
        <strong>{model}</strong>
        <span class={state === "failed" ? "bad" : "quiet"}>
          {isOpen && pull.retry_at !== null ? "is tried again" : Object.hasOwn(says, state) ? says[state] : state}
        </span>
      </div>
      {state !== "completed" && state !== "cancelled" && (
        <p class="row">
          <progress
            aria-label={`Progress of ${model}`}
            value={pull.bytes_done}
            max={Math.max(1, pull.bytes_total ?? pull.bytes_done)}
          />
          <span class="quiet number">
            {percent(pull.bytes_done, pull.bytes_total) ?? ""} {bytes(pull.bytes_done)} of {bytes(pull.bytes_total)}
            {rate}
            {left}
          </span>
        </p>
      )}
      {pull.error !== null && (
        <div role="alert">
          {pull.error.message}
          {pull.retry_at !== null && `. It is tried again at ${new Date(pull.retry_at).toLocaleTimeString()}.`}
        </div>
      )}
      <div class="row">
        {isOpen && !isCheck && (
          <Action label={`Pause ${model}`} onClick={() => call("POST /api/pulls/{id}/pause", { params })}>
            Pause
          </Action>
        )}
        {(state === "paused" || state === "failed") && !isCheck && (
          <Action label={`Resume ${model}`} onClick={() => call("POST /api/pulls/{id}/resume", { params })}>
            {state === "failed" ? "Retry now" : "Resume"}
          </Action>
        )}
        {(isOpen || state === "paused") && !pull.for_slot && (
          <Action label={`Cancel ${model}`} onClick={() => call("DELETE /api/pulls/{id}", { params })}>
            Cancel
          </Action>
        )}
      </div>
    </li>
  );
}
