import { setTimeout as delay } from "node:timers/promises";
import { CommandError, type Client } from "./client.ts";
import { bytes, cell } from "./output.ts";
import { conditionOf, type SlotRow } from "./slot-words.ts";
import { bar, StatusLine, type Screen } from "./terminal.ts";

/** How long the service waits for the slot before it answers; empty: not at all. */
interface WaitQuery {
  readonly wait?: "ready";
  readonly timeout?: number;
}

/** A change to one slot, as the management API accepts it. */
export interface SlotRequest {
  readonly slot: string;
  /** The change itself; answers the slot, with `wait` once it has settled. */
  readonly send: (client: Client, query: WaitQuery) => Promise<SlotRow>;
  /** The message without a wait: `restart requested`. */
  readonly said: string;
  /** The answer is the state of a slot that was just declared: why it cannot start is said with it. */
  readonly isNew?: true;
  /** The expected result for the wait to succeed, beside a slot that is as declared. */
  readonly wanted?: { readonly isLoaded?: boolean; readonly model?: string };
}

export interface Waiting {
  /** Undefined: the request is sent without a wait. */
  readonly timeoutSeconds: number | undefined;
  readonly screen: Screen;
}

const pollMs = 250;

/**
 * Requests a change and, with a wait, shows the progress until it has settled. Returns the line for standard output.
 * Throws CommandError when it was refused, has failed, or has not settled in time.
 */
export async function request(client: Client, wanted: SlotRequest, waiting: Waiting): Promise<string> {
  const { timeoutSeconds } = waiting;
  if (timeoutSeconds === undefined) {
    const stalled = conditionOf(await wanted.send(client, {}), "Stalled");
    const isFaulty = wanted.isNew === true && stalled?.status === "True";
    const fault = isFaulty ? `, but it cannot start yet: ${cell(stalled.message)}` : "";
    return `${wanted.slot}: ${wanted.said}${fault}\n`;
  }
  // The service knows when its own request has settled; the progress is only for display.
  const answer = wanted.send(client, { wait: "ready", timeout: timeoutSeconds });
  const over = new AbortController();
  const watching = watch(client, wanted.slot, waiting.screen, over.signal);
  try {
    return outcome(wanted, await answer, timeoutSeconds);
  } finally {
    over.abort();
    await watching;
  }
}

async function watch(client: Client, name: string, screen: Screen, over: AbortSignal): Promise<void> {
  using line = new StatusLine(screen);
  const since = performance.now();
  while (!over.aborted) {
    // Only for display: a failed read is repeated the next time.
    const slot = await client.call("GET /api/slots/{name}", { params: { name } }).catch(() => undefined);
    if (over.aborted) return;
    if (slot !== undefined) {
      const { fact, detail } = present(slot);
      line.show(fact, `${detail} (${Math.floor((performance.now() - since) / 1000)}s)`);
    }
    await delay(pollMs, undefined, { signal: over }).catch(() => undefined);
  }
}

/** The slot's present state, and the reason of the wait. */
export function present(slot: SlotRow): { fact: string; detail: string } {
  const condition = conditionOf(slot, "Reconciling") ?? conditionOf(slot, "Ready");
  const message = condition === undefined ? "" : `: ${cell(condition.message)}`;
  return { fact: `${cell(slot.name)}: ${cell(slot.state)}${message}`, detail: progressOf(slot.progress) };
}

function progressOf(progress: SlotRow["progress"]): string {
  const { bytes_done: done, bytes_total: total, bytes_per_second: speed } = progress ?? {};
  if (typeof done !== "number") return "";
  const rate = typeof speed === "number" ? `, ${bytes(speed)}/s` : "";
  if (typeof total !== "number" || total <= 0) return ` ${bytes(done)}${rate}`;
  return ` ${bar(done / total)} ${Math.floor((100 * done) / total)}% of ${bytes(total)}${rate}`;
}

const loadedStates: readonly (string | null | undefined)[] = ["ready", "serving", "idle"];

function outcome({ slot: name, wanted }: SlotRequest, slot: SlotRow, timeoutSeconds: number): string {
  const ready = conditionOf(slot, "Ready");
  const { fact } = present(slot);
  const next = `see \`berth slot show ${name}\``;
  if (ready?.status === "True") {
    // A slot may settle in another state: it was disabled, unloaded or swapped meanwhile.
    if (wanted?.isLoaded === true && !loadedStates.includes(slot.state)) {
      throw new CommandError("slot.not_ready", `settled, but not loaded: ${fact}`, next);
    }
    if (wanted?.model !== undefined && slot.model !== wanted.model) {
      throw new CommandError("slot.not_ready", `${name} holds ${cell(slot.model)}, not ${wanted.model}`, next);
    }
    return `${fact}\n`;
  }
  if (ready?.status === "False") {
    throw new CommandError("slot.failed", `${name}: ${cell(ready.reason)}: ${cell(ready.message)}`, next);
  }
  if (ready?.reason === "OperatorLost") {
    const message = `no operator runs (${cell(ready.message)}): ${cell(slot.name)} is ${cell(slot.state)}`;
    throw new CommandError("slot.not_ready", message, "the next operator does what was asked; see `berth status`");
  }
  throw new CommandError("slot.not_ready", `not over after ${timeoutSeconds} s: ${fact}`, `it goes on; ${next}`);
}
