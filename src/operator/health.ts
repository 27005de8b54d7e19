import type { EngineProtocol, ProcessRole } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import type { ProbeTarget } from "../engines/engine.ts";
import type { Health } from "./input.ts";
import type { Probe, ProbeResult } from "./probe.ts";
import { earlyMs, nextProbe } from "./facts.ts";
import { spokenProtocols } from "./protocol-probe.ts";

interface Memory extends Health {
  /** Which process this is about; another one starts from nothing. */
  readonly process: string;
  readonly probedAt: number;
  /** When it started, by time that goes by whatever the clock is set to; undefined: before its first look. */
  readonly startedMs?: number;
  /** When its socket was first missed, by that same time; undefined: it is there, or was never ready. */
  readonly lostMs?: number;
  /** Why the warm-up request failed last; probes that pass say nothing about it. */
  readonly warmUpMessage: string;
  /** In a row. */
  readonly warmUpFailures: number;
}

/** One or more questions to one process. Never rejects. */
type Ask<Result> = (request: {
  readonly port: number;
  readonly bearer: string | undefined;
  readonly signal: AbortSignal;
}) => Promise<Result>;

interface Asking {
  readonly process: string;
  readonly question: "probe" | "warmUp";
  readonly done: Promise<void>;
}

interface Warmed {
  readonly result: ProbeResult;
  readonly protocols?: readonly EngineProtocol[];
}

/** An engine that is warm says at once whether it has a route. */
const protocolTimeoutMs = 3000;

/** After the first failed warm-up request; twice as long after each further one. */
const warmUpAgainMs = 250;
const slowestWarmUpMs = 5000;

const unknown: Health = { isHealthy: false, isWarm: false, failures: 0, message: "", listeningAt: undefined };

/**
 * What probing has shown, per process. Engines are asked in the background, so that one that hangs or takes minutes
 * for its first answer holds up no reconcile; whoever watches hears when an answer changes something. Only the owner
 * of a slot's key calls `look` and `warm` for that slot.
 */
export class HealthBook implements Disposable {
  readonly #memory = new Map<string, Memory>();
  /** What is being asked now: at most one request per process. */
  readonly #asking = new Map<string, Asking>();
  readonly #probe: Probe;
  readonly #elapsedMs: () => number;
  readonly #closing = new AbortController();
  #onChange: (slot: string) => void = () => undefined;

  /** `elapsedMs`: time that goes by whatever the clock is set to. */
  constructor(probe: Probe, elapsedMs: () => number = () => performance.now()) {
    this.#probe = probe;
    this.#elapsedMs = elapsedMs;
  }

  /** Calls `onSlot` when an engine became healthy or warm, or failed while it was. One watcher. */
  watch(onSlot: (slot: string) => void): Disposable {
    this.#onChange = onSlot;
    return {
      [Symbol.dispose]: () => {
        this.#onChange = () => undefined;
      },
    };
  }

  /** Ends what is being asked. */
  [Symbol.dispose](): void {
    this.#closing.abort();
  }

  /**
   * What is known now; asks the process when that is due: at every look until it is warm, then once per interval. A
   * process that an earlier operator had published as ready is waited for: it is adopted, not warmed again.
   */
  async look(
    process: Observed,
    target: ProbeTarget,
    spec: SlotSpec,
    published: PublishedSlot | undefined,
    now: Date,
    /** Nothing but a probe can tell how it is: it is waited for. */
    isBlind = false,
  ): Promise<Health> {
    const key = keyOf(process.slot, process.role);
    const aged = this.#aged(process, now);
    const lost = this.#lost(process, aged, published, now);
    if (lost !== undefined) return lost;
    const { lostMs: _back, ...known } = aged;
    const listening = process.isListening ? { ...known, listeningAt: known.listeningAt ?? now } : known;
    const memory = withRest(listening, now);
    this.#memory.set(key, memory);
    const isPast = now.getTime() < memory.probedAt || now.getTime() >= nextProbe(memory.probedAt, spec) - earlyMs;
    // A healthy one that is not warm waits for its warm-up request, not for another probe.
    const isDue = memory.isWarm ? isPast : !memory.isHealthy;
    if (!process.isListening || !(isDue || isBlind)) return memory;
    const isAdopted = memory.probedAt === 0 && wasReady(process, published);
    const timeoutMs = spec.probe.timeoutSeconds * 1000;
    const ask: Ask<ProbeResult> = (request) => this.#probe({ ...request, path: target.path, timeoutMs });
    const asked = this.#ask(process, "probe", ask, (before, result) => {
      const isHealthy = result.outcome === "healthy";
      return {
        ...before,
        probedAt: now.getTime(),
        isHealthy,
        isWarm: before.isWarm || (isHealthy && (target.warmUp === undefined || isAdopted)),
        failures: isHealthy ? 0 : before.failures + 1,
        message: isHealthy ? before.warmUpMessage : result.message,
      };
    });
    if (isAdopted || isBlind) await asked;
    return this.#of(process);
  }

  /**
   * Sends the warm-up request, once at a time. A failure leaves the process warming until its start-up time is over.
   */
  warm(process: Observed, target: ProbeTarget, timeoutMs: number): void {
    const { warmUp } = target;
    if (warmUp === undefined) return;
    const question = "body" in warmUp ? { body: warmUp.body } : { form: warmUp };
    const ask: Ask<Warmed> = async (request) => {
      const result = await this.#probe({ ...request, path: warmUp.path, timeoutMs, ...question });
      const claimed = result.outcome === "healthy" ? (target.protocols ?? []) : [];
      const protocols = await spokenProtocols(this.#probe, claimed, { ...request, timeoutMs: protocolTimeoutMs });
      return { result, ...(claimed.length === 0 ? {} : { protocols }) };
    };
    void this.#ask(process, "warmUp", ask, (before, { result, ...seen }) => {
      const isWarm = result.outcome === "healthy";
      const message = isWarm ? "" : result.message;
      const { warmUpAt: _past, ...rest } = before;
      // Its probe has passed: it is asked again when its rest is over, and meanwhile nothing else is so.
      const warmUpFailures = isWarm ? 0 : before.warmUpFailures + 1;
      return { ...rest, isWarm, message, warmUpMessage: message, warmUpFailures, ...seen };
    });
  }

  forget(slot: string): void {
    for (const key of this.#memory.keys()) if (key.startsWith(`${slot}/`)) this.#memory.delete(key);
  }

  /**
   * An engine that was ready and does not listen on its port any more, of which no probe could tell: nobody answers
   * there, or somebody else does. What is somebody else's doing and is put right, such as a pause, is no loss.
   */
  #lost(process: Observed, memory: Memory, published: PublishedSlot | undefined, now: Date): Health | undefined {
    if (process.isListening || process.drift !== undefined) return undefined;
    const wasAdopted = memory.probedAt === 0 && wasReady(process, published);
    if (!memory.isWarm && memory.lostMs === undefined && !wasAdopted) return undefined;
    const elapsedMs = this.#elapsedMs();
    const lostMs = memory.lostMs ?? elapsedMs;
    this.#memory.set(keyOf(process.slot, process.role), { ...memory, lostMs });
    return { ...memory, isWarm: true, lostAt: new Date(now.getTime() - (elapsedMs - lostMs)) };
  }

  /** Its age goes on however the clock is set: an engine that loads must not run out of time by that, nor get more. */
  #aged(process: Observed, now: Date): Memory {
    const known = this.#of(process);
    const elapsedMs = this.#elapsedMs();
    const startedMs = known.startedMs ?? elapsedMs - (now.getTime() - process.startedAt.getTime());
    return { ...known, startedMs, startedAt: new Date(now.getTime() - (elapsedMs - startedMs)) };
  }

  #of(process: Observed): Memory {
    const remembered = this.#memory.get(keyOf(process.slot, process.role));
    const identity = identityOf(process);
    return remembered?.process === identity
      ? remembered
      : { ...unknown, process: identity, probedAt: 0, warmUpMessage: "", warmUpFailures: 0 };
  }

  /**
   * Asks unless something is being asked of that very process. Resolves with the answer to that `question`, at once
   * where it is another that is being asked: a warm-up request may take minutes. Never rejects.
   */
  #ask<Result>(
    { slot, role, port, bearer, ...rest }: Observed,
    question: Asking["question"],
    ask: Ask<Result>,
    conclude: (before: Memory, result: Result) => Memory,
  ): Promise<void> {
    const key = keyOf(slot, role);
    const identity = identityOf(rest);
    const current = this.#asking.get(key);
    if (current?.process === identity) return current.question === question ? current.done : Promise.resolve();
    const done = ask({ port, bearer, signal: this.#closing.signal }).then((result) => {
      if (this.#asking.get(key)?.process === identity) this.#asking.delete(key);
      const before = this.#memory.get(key);
      // The answer of a process that has been replaced meanwhile tells nothing.
      if (before?.process !== identity || this.#closing.signal.aborted) return;
      const after = conclude(before, result);
      this.#memory.set(key, after);
      if (isNews(before, after)) this.#onChange(slot);
    });
    this.#asking.set(key, { process: identity, question, done });
    return done;
  }
}

/** When a warm-up request that has failed is sent again: the rest begins with the first look after it. */
function withRest(memory: Memory, now: Date): Memory {
  if (memory.isWarm || memory.warmUpFailures === 0) return memory;
  const restMs = Math.min(slowestWarmUpMs, warmUpAgainMs * 2 ** (memory.warmUpFailures - 1));
  // One that lies further ahead is of a clock that has been set back.
  if (memory.warmUpAt !== undefined && memory.warmUpAt.getTime() - now.getTime() <= restMs) return memory;
  return { ...memory, warmUpAt: new Date(now.getTime() + restMs) };
}

/** While it loads a failed probe is no news: the slot looks again by itself. */
function isNews(before: Memory, after: Memory): boolean {
  if (!after.isWarm) {
    return (after.isHealthy && !before.isHealthy) || after.warmUpFailures !== before.warmUpFailures;
  }
  return !before.isWarm || before.failures !== after.failures;
}

const keyOf = (slot: string, role: ProcessRole): string => `${slot}/${role}`;

function identityOf(process: Pick<Observed, "id" | "startedAt">): string {
  return `${JSON.stringify(process.id)} ${process.startedAt.toISOString()}`;
}

function wasReady(process: Observed, published: PublishedSlot | undefined): boolean {
  const before = published?.status.processes.find(({ role }) => role === process.role);
  if (before?.isReady !== true) return false;
  return "pid" in process.id
    ? before.pid === process.id.pid
    : "containerId" in process.id && before.containerId === process.id.containerId && isSameStart(before, process);
}

/** A container that somebody else has restarted keeps its id, and has loaded nothing yet. */
function isSameStart(before: { readonly startedAt?: string | undefined }, process: Observed): boolean {
  return before.startedAt === process.startedAt.toISOString();
}
