import { isSameStart, nameOfStart } from "../../api/engine-identity.ts";
import type { EngineProtocol } from "../../api/names.ts";
import { isSameProcess, processName, type SlotProcess } from "../../api/process-ref.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import type { ProbeTarget } from "../../engines/engine.ts";
import type { Health } from "../plan/input.ts";
import type { Clock } from "../queue.ts";
import type { ProcessHealth, RequestInProgress, SlotMemories } from "../slot-memory.ts";
import type { Probe, ProbeResult } from "./probe.ts";
import { startProber } from "./prober.ts";
import { spokenProtocols } from "./protocol-probe.ts";

/** One or more requests to one process. Never rejects. */
type Exchange<Result> = (request: {
  readonly host: string;
  readonly port: number;
  readonly bearer: string | undefined;
  readonly signal: AbortSignal;
}) => Promise<Result>;

interface Warmed {
  readonly result: ProbeResult;
  readonly protocols?: readonly EngineProtocol[];
}

/** A warm engine answers at once whether it has a route. */
const protocolTimeoutMs = 3000;

/** After the first failed warm-up request; twice as long after each further one. */
const firstWarmUpBackoffMs = 250;
const longestWarmUpBackoffMs = 5000;

const unknown: Health = { isHealthy: false, isWarm: false, failures: 0, message: "", listeningAt: undefined };

/**
 * The results of probing, per process. Engines are probed in the background, so that one that hangs or takes minutes
 * for its first answer delays no reconcile; a watcher is notified when a result changes something. Only the owner of a
 * slot's key calls `stateOf`, `warm` and `follow` for that slot.
 */
export class HealthRecords implements Disposable {
  readonly #probe: Probe;
  readonly #memories: SlotMemories;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #onChange: (slot: string) => void = () => undefined;

  constructor(probe: Probe, memories: SlotMemories, clock: Clock) {
    this.#probe = probe;
    this.#memories = memories;
    this.#clock = clock;
  }

  /** Calls `onSlot` when an engine became healthy or warm, or failed during that. One watcher. */
  watch(onSlot: (slot: string) => void): Disposable {
    this.#onChange = onSlot;
    return {
      [Symbol.dispose]: () => {
        this.#onChange = () => undefined;
      },
    };
  }

  /** Aborts requests in progress, and sends none any more. */
  [Symbol.dispose](): void {
    this.#closing.abort();
    for (const [, { probers }] of this.#memories.all()) for (const prober of probers.values()) prober[Symbol.dispose]();
  }

  /**
   * The present knowledge, and whether a probe is due: at every observation until the process is healthy; a warm one is
   * probed by `follow`. A process that an earlier operator had published as ready is probed before anything is decided: it
   * is adopted, not warmed again. Sends nothing.
   */
  stateOf(
    process: Observed,
    published: PublishedSlot | undefined,
    now: Date,
    /** Only a probe can show the state of the process. */
    isUnreachable = false,
  ): Health {
    const aged = this.#aged(process, now);
    const lost = this.#lost(process, aged, published, now);
    if (lost !== undefined) return lost;
    const { lostMs: _back, ...known } = aged;
    const listening = process.isListening ? { ...known, listeningAt: known.listeningAt ?? now } : known;
    const memory = withWarmUpBackoff(listening, now);
    this.#remember(process, memory);
    // A healthy process that is not warm waits for its warm-up request, not for another probe.
    const isDue = !memory.isWarm && !memory.isHealthy;
    if (!process.isListening || !(isDue || isUnreachable)) return memory;
    const isAdopted = memory.probedAt === 0 && wasReady(process, published);
    return { ...memory, probeDue: { isAdopted, isAwaited: isAdopted || isUnreachable } };
  }

  /** Sends the probe that `stateOf` called due. Resolves with its answer; never rejects. */
  async probe(
    process: Observed,
    { path, warmUp }: ProbeTarget,
    { timeoutMs, isAdopted = false }: { readonly timeoutMs: number; readonly isAdopted?: boolean },
  ): Promise<void> {
    const now = this.#clock.now();
    const exchange: Exchange<ProbeResult> = (request) => this.#probe({ ...request, path, timeoutMs });
    await this.#exchange(process, "probe", exchange, (before, result) => {
      const isHealthy = result.outcome === "healthy";
      return {
        ...before,
        probedAt: now.getTime(),
        isHealthy,
        isWarm: before.isWarm || (isHealthy && (warmUp === undefined || isAdopted)),
        failures: isHealthy ? 0 : before.failures + 1,
        message: isHealthy ? before.warmUpMessage : result.message,
      };
    });
  }

  /**
   * Sends the warm-up request, once at a time. A failure leaves the process warming until its start-up time is over.
   * `onAnswered`: what is done before the process counts as warm; never rejects.
   */
  warm(
    process: Observed,
    target: ProbeTarget,
    timeoutMs: number,
    onAnswered: (signal: AbortSignal) => Promise<void> = async () => undefined,
  ): void {
    const { warmUp } = target;
    if (warmUp === undefined) return;
    const kind = "body" in warmUp ? { body: warmUp.body } : { form: warmUp };
    const exchange: Exchange<Warmed> = async (request) => {
      const result = await this.#probe({ ...request, path: warmUp.path, timeoutMs, ...kind });
      const claimed = result.outcome === "healthy" ? (target.protocols ?? []) : [];
      const protocols = await spokenProtocols(this.#probe, claimed, { ...request, timeoutMs: protocolTimeoutMs });
      if (result.outcome === "healthy") await onAnswered(request.signal);
      return { result, ...(claimed.length === 0 ? {} : { protocols }) };
    };
    void this.#exchange(process, "warmUp", exchange, (before, { result, ...seen }) => {
      const isWarm = result.outcome === "healthy";
      const message = isWarm ? "" : result.message;
      const { warmUpAt: _past, ...rest } = before;
      // The probe has passed: the warm-up is repeated after its delay, and the other facts do not change meanwhile.
      const warmUpFailures = isWarm ? 0 : before.warmUpFailures + 1;
      const refused = result.outcome === "failed" && result.isRefused === true ? { isRefused: true as const } : {};
      return { ...rest, isWarm, message, warmUpMessage: message, warmUpFailures, ...refused, ...seen };
    });
  }

  /**
   * Probes the warm ones of a slot's listening processes once per interval from now on, and no others; a watcher is notified where an
   * answer changes something.
   */
  follow(slot: string, running: readonly (readonly [process: Observed, target: ProbeTarget])[], spec: SlotSpec): void {
    if (this.#closing.signal.aborted) return;
    const { probers, health } = this.#memories.of(slot);
    const send = (to: Observed, target: ProbeTarget, timeoutMs: number): Promise<void> =>
      this.probe(to, target, { timeoutMs });
    const names = new Set(running.map(([process]) => processName(process)));
    for (const [name, prober] of probers) {
      if (names.has(name)) continue;
      prober[Symbol.dispose]();
      probers.delete(name);
    }
    for (const [process, target] of running) {
      const name = processName(process);
      const identity = nameOfStart(process.id, process.startedAt);
      const known = probers.get(name);
      if (known?.process === identity) known.follow(process, target, spec.probe);
      else if (health.get(name)?.isWarm === true) {
        known?.[Symbol.dispose]();
        probers.set(name, startProber(process, target, spec.probe, { clock: this.#clock, send }));
      }
    }
  }

  /** Has none of a slot's processes probed until `follow` is called again. */
  unfollow(slot: string): void {
    const { probers } = this.#memories.of(slot);
    for (const prober of probers.values()) prober[Symbol.dispose]();
    probers.clear();
  }

  /**
   * A ready engine that does not listen on its port any more, which no probe could show: no program answers there, or
   * another one does. A foreign change that is being corrected, such as a pause, is no loss.
   */
  #lost(process: Observed, memory: ProcessHealth, published: PublishedSlot | undefined, now: Date): Health | undefined {
    if (process.isListening || process.drift !== undefined) return undefined;
    const wasAdopted = memory.probedAt === 0 && wasReady(process, published);
    if (!memory.isWarm && memory.lostMs === undefined && !wasAdopted) return undefined;
    const elapsedMs = this.#clock.elapsedMs();
    const lostMs = memory.lostMs ?? elapsedMs;
    this.#remember(process, { ...memory, lostMs });
    return { ...memory, isWarm: true, lostAt: new Date(now.getTime() - (elapsedMs - lostMs)) };
  }

  /**
   * The age of a process is independent of the clock's setting: a loading engine must neither run out of time when the
   * clock is set, nor get more.
   */
  #aged(process: Observed, now: Date): ProcessHealth {
    const known = this.#of(process);
    const elapsedMs = this.#clock.elapsedMs();
    const startedMs = known.startedMs ?? elapsedMs - (now.getTime() - process.startedAt.getTime());
    return { ...known, startedMs, startedAt: new Date(now.getTime() - (elapsedMs - startedMs)) };
  }

  #remember(process: SlotProcess, memory: ProcessHealth): void {
    this.#memories.of(process.slot).health.set(processName(process), memory);
  }

  #of(process: Observed): ProcessHealth {
    const remembered = this.#memories.of(process.slot).health.get(processName(process));
    const identity = nameOfStart(process.id, process.startedAt);
    return remembered?.process === identity
      ? remembered
      : { ...unknown, process: identity, probedAt: 0, warmUpMessage: "", warmUpFailures: 0 };
  }

  /**
   * Sends unless a request to that very process is in progress. Resolves with the answer to that `question`, at once
   * where another request is in progress: a warm-up request may take minutes. Never rejects.
   */
  #exchange<Result>(
    { slot, role, ordinal, host, port, bearer, ...rest }: Observed,
    kind: RequestInProgress["kind"],
    exchange: Exchange<Result>,
    conclude: (before: ProcessHealth, result: Result) => ProcessHealth,
  ): Promise<void> {
    const name = processName({ role, ordinal });
    const identity = nameOfStart(rest.id, rest.startedAt);
    const { health, requests } = this.#memories.of(slot);
    const current = requests.get(name);
    if (current?.process === identity) return current.kind === kind ? current.done : Promise.resolve();
    const done = exchange({ host, port, bearer, signal: this.#closing.signal }).then((result) => {
      if (requests.get(name)?.process === identity) requests.delete(name);
      const before = health.get(name);
      // The answer of a process that has been replaced meanwhile is dropped.
      if (before?.process !== identity || this.#closing.signal.aborted) return;
      const after = conclude(before, result);
      health.set(name, after);
      if (isNotable(before, after)) this.#onChange(slot);
    });
    requests.set(name, { process: identity, kind, done });
    return done;
  }
}

/** When a failed warm-up request is sent again: the delay begins with the first observation after it. */
function withWarmUpBackoff(memory: ProcessHealth, now: Date): ProcessHealth {
  if (memory.isWarm || memory.warmUpFailures === 0) return memory;
  const backoffMs = Math.min(longestWarmUpBackoffMs, firstWarmUpBackoffMs * 2 ** (memory.warmUpFailures - 1));
  // A time further ahead is from before the clock was set back.
  if (memory.warmUpAt !== undefined && memory.warmUpAt.getTime() - now.getTime() <= backoffMs) return memory;
  return { ...memory, warmUpAt: new Date(now.getTime() + backoffMs) };
}

/** A failed probe during a load is not notable: a loading slot is requeued anyway. */
function isNotable(before: ProcessHealth, after: ProcessHealth): boolean {
  if (!after.isWarm) {
    return (after.isHealthy && !before.isHealthy) || after.warmUpFailures !== before.warmUpFailures;
  }
  return !before.isWarm || before.failures !== after.failures;
}

function wasReady(process: Observed, published: PublishedSlot | undefined): boolean {
  const before = published?.status.processes.find((each) => isSameProcess(each, process));
  if (before?.isReady !== true) return false;
  // A process that was restarted from outside has loaded nothing yet.
  return isSameStart(before, process);
}
