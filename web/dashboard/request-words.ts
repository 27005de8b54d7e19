import type { RequestView } from "../../src/api/management/request-routes.ts";
import type { Tone } from "../../src/api/state-words.ts";

/** How a request has ended, for a person. */
export function outcomeOf({ status, error }: Pick<RequestView, "status" | "error">): {
  readonly tone: Tone;
  readonly text: string;
} {
  if (status === 499) return { tone: "off", text: "Client left" };
  if (status < 400 && error === null) return { tone: "good", text: "Answered" };
  return { tone: "bad", text: error === null ? String(status) : `${status} ${words(error)}` };
}

/** The slot or the provider that has answered a request, in words; the server calls a provider `upstream NAME`. */
export function answererOf(slot: string): string {
  return slot.replace(/^upstream /, "provider ");
}

/** The time of day of an instant, e.g. `14:03:09`, after its date where that is not today. */
export function timeOfDay(at: string, today = new Date()): string {
  const date = new Date(at);
  const day = date.toDateString() === today.toDateString() ? "" : `${date.toLocaleDateString()} `;
  return day + date.toTimeString().slice(0, 8);
}

/** The outcomes by which requests are chosen, as the address of the page has them. */
export const outcomes: ReadonlyMap<string, Tone> = new Map([
  ["answered", "good"],
  ["failed", "bad"],
  ["left", "off"],
]);

/** The requests that a person looks for; an empty value is anything. */
export interface Wanted {
  readonly slot: string;
  readonly outcome: string;
  readonly route: string;
  readonly text: string;
}

export function isWanted(request: RequestView, { slot, outcome, route, text }: Wanted): boolean {
  const { id, model, engine_error: engineError, error } = request;
  return (
    (slot === "" || request.slot === slot) &&
    (route === "" || request.route === route) &&
    (outcome === "" || outcomes.get(outcome) === outcomeOf(request).tone) &&
    `${id} ${model} ${request.route} ${error ?? ""} ${engineError ?? ""}`.toLowerCase().includes(text.toLowerCase())
  );
}

/** An error code in words: `slot.not_ready` is `not ready`. */
function words(code: string): string {
  return (code.split(".").at(-1) ?? code).replaceAll("_", " ");
}

/** The tokens of an answer by the second, after its first one; undefined where they are not known. */
export function rateOf({ tokens_out: count, first_token_ms: first, ms }: RequestView): number | undefined {
  return count === null || count < 2 || first === null || ms <= first ? undefined : (1000 * (count - 1)) / (ms - first);
}

/** A part of a request's time. */
export interface Stretch {
  readonly name: "queued" | "held" | "prompt" | "answer";
  readonly ms: number;
}

/** The parts of a request's time, in their order; parts that took none are left out. */
export function stretchesOf({
  ms,
  queued_ms: queued,
  held_ms: held,
  first_token_ms: first,
}: RequestView): readonly Stretch[] {
  const waited = queued + held;
  const prompt = first === null ? 0 : Math.max(0, first - waited);
  const all: readonly Stretch[] = [
    { name: "held", ms: held },
    { name: "queued", ms: queued },
    { name: "prompt", ms: prompt },
    { name: "answer", ms: Math.max(0, ms - waited - prompt) },
  ];
  return all.filter((stretch) => stretch.ms > 0);
}
