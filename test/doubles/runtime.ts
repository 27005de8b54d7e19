import type { RuntimeKind } from "../../src/api/names.ts";
import { compareProcesses, isSameProcess, processName, type ProcessRef } from "../../src/api/process-ref.ts";
import type { Exit, Observed, Pending, Workload } from "../../src/api/workload.ts";
import type { Probe } from "../../src/operator/observe/probe.ts";
import { Subscribers } from "../../src/lib/subscribers.ts";
import { processTraits } from "../../src/runtimes/process/traits.ts";
import type { Preparation, Runtime, Runtimes, RuntimeTraits } from "../../src/runtimes/runtime.ts";
import type { ManualClock } from "./clock.ts";
import { traitsOfKind } from "./runtime-kinds.ts";

/** How the engines of one slot behave from their next look on. */
export interface Manner {
  /** Between the start and the first listening socket. */
  startMs: number;
  /** Between listening and the first healthy probe. */
  loadMs: number;
  /** It ends by itself this long after each start. */
  crashAfterMs: number | undefined;
  /** Its last output then. */
  lastOutput?: string;
  /** It cannot be started at all; nor can, whatever this says, the program /nope. */
  cannotStart: boolean;
  /** Why, where no program was tried, as where its image cannot be fetched. */
  refusedFor?: Exclude<Observed["exit"], Exit | undefined>["reason"];
  /** Its program has not begun, for this reason. */
  pending?: Pending | undefined;
  probe: "healthy" | "failing" | "warm-up-fails" | "hanging";
}

export const wellBehaved: Manner = {
  startMs: 40,
  loadMs: 100,
  crashAfterMs: undefined,
  cannotStart: false,
  probe: "healthy",
};

interface Engine {
  readonly workload: Workload;
  readonly startedAt: Date;
  /** By the clock's elapsed time. */
  readonly startedMs: number;
  readonly pid: number;
  exit: Observed["exit"];
  /** It has closed its listening socket, and lives. */
  isDeaf?: true;
  /** Somebody else has paused its container. */
  isPaused?: boolean;
}

/** One call of the runtime. */
export interface Deed {
  readonly did: "start" | "stop" | "clear";
  readonly slot: string;
  /** Its name within the slot: `main`, `main-1`, `rerank`. */
  readonly process: string;
  readonly hash: string;
  readonly at: Date;
  readonly startedAt: Date;
  /** Somebody else had its port then. */
  readonly isPortTaken: boolean;
}

/** A DOUBLE for a machine that runs engines: no process, only what would be seen of one. It outlives operators. */
export class RuntimeDouble implements Runtime, Runtimes {
  readonly traits: RuntimeTraits;
  readonly kinds = ["docker", "process"] as const;
  readonly offered = ["docker"] as const;
  readonly alwaysThere = "process";
  /** The container engine, which runs the engines of this double, answers. */
  isContainerEngineUp = false;
  readonly deeds: Deed[] = [];
  /** The states that no operator may bring about, as they occurred. */
  readonly violations: string[] = [];
  /** Ports on which somebody else listens. */
  readonly strangers = new Set<number>();
  /** Every start waits for it: programs that take their time to be refused. */
  beforeStart: Promise<void> | undefined;
  /** Every removal waits for it: engines that take their time to end. */
  beforeRemoval: Promise<void> | undefined;
  /** Ports whose engines fail their probes, whatever the manner of their slot. */
  readonly failing = new Set<number>();
  /** Warm-up requests so far. */
  readonly warmUps: { readonly port: number; readonly timeoutMs: number }[] = [];
  /** The preparation of a container; absent: all is here. */
  prepared: (() => Promise<Preparation>) | undefined;
  /** The images that were to be fetched, and for which attempt. */
  readonly fetched: string[] = [];
  readonly #clock: ManualClock;
  readonly #engines = new Map<string, Engine>();
  readonly #manners = new Map<string, Manner>();
  readonly #listeners = new Subscribers<[slot: string]>();
  readonly #answering = new Subscribers<[]>();
  #pid = 1000;
  #lookedAt = 0;
  #looks = 0;

  constructor(clock: ManualClock, traits: RuntimeTraits = processTraits) {
    this.#clock = clock;
    this.traits = traits;
  }

  traitsOf(kind: RuntimeKind): RuntimeTraits | undefined {
    return kind === "kubernetes" ? undefined : traitsOfKind[kind];
  }

  answers(kind: RuntimeKind): boolean {
    return kind === this.traits.kind || this.isContainerEngineUp;
  }

  watchAnswering(onChange: () => void): Disposable {
    return this.#answering.add(onChange);
  }

  owns(): boolean {
    return false;
  }

  /** The container engine comes or goes. */
  setContainerEngine(isUp: boolean): void {
    this.isContainerEngineUp = isUp;
    this.#answering.notify();
  }

  manner(slot: string): Manner {
    const manner = this.#manners.get(slot) ?? { ...wellBehaved };
    this.#manners.set(slot, manner);
    return manner;
  }

  running(slot: string): readonly string[] {
    return this.#of(slot).flatMap(({ workload, exit }) => (exit === undefined ? [processName(workload)] : []));
  }

  portOf(slot: string, process = "main"): number | undefined {
    return this.#engines.get(`${slot}/${process}`)?.workload.port;
  }

  /** Ends an engine as the kernel would; nothing happens when it does not run. */
  kill(slot: string, process = "main", isTold = true): void {
    const message = "killed by SIGKILL";
    this.#end(slot, process, { reason: "Signalled", signal: "SIGKILL", message, at: this.#clock.now().toISOString() });
    if (isTold) this.#listeners.notify(slot);
  }

  /** It closes its listening socket, and lives on. */
  deafen(slot: string, process = "main"): void {
    const engine = this.#engines.get(`${slot}/${process}`);
    if (engine !== undefined) engine.isDeaf = true;
    this.#listeners.notify(slot);
  }

  /** Somebody else pauses its container. */
  pause(slot: string, process = "main"): void {
    const engine = this.#engines.get(`${slot}/${process}`);
    if (engine !== undefined) engine.isPaused = true;
    this.#listeners.notify(slot);
  }

  /** It is gone with all that was known of it, as after a reboot. */
  lose(slot: string, process = "main", isTold = true): void {
    this.#engines.delete(`${slot}/${process}`);
    if (isTold) this.#listeners.notify(slot);
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const now = this.#clock.elapsedMs();
    this.#looks = now === this.#lookedAt ? this.#looks + 1 : 0;
    this.#lookedAt = now;
    if (this.#looks > 500) throw new Error(`${slot} is looked at again and again, and no time goes by`);
    return this.#of(slot).map(({ workload, startedAt, startedMs, pid, exit, isDeaf = false, isPaused = false }) => {
      const { role, ordinal, hash, port, bearer } = workload;
      const isPortTaken = exit === undefined && this.strangers.has(port);
      const isUp = exit === undefined && !isDeaf && !isPaused && now >= startedMs + this.manner(slot).startMs;
      const isLocal = this.traits.addressing.needsHostPort;
      const host = isLocal ? "127.0.0.1" : `10.0.0.${pid % 256}`;
      const id = this.traits.identity === "podName" ? { podName: `pod-${pid}` } : { pid };
      const place = { slot, role, ordinal, hash, host, port, startedAt, id };
      const secret = bearer === undefined ? {} : { bearer: `bearer-${pid}` };
      const drift = isPaused ? { drift: { reason: "Paused", message: "paused from outside" } as const } : {};
      const { pending } = this.manner(slot);
      const isListening = isUp && !isPortTaken && pending === undefined;
      const wait = pending === undefined ? {} : { pending };
      const seen = { ...place, ...secret, ...drift, ...wait, isPortTaken, isListening };
      return exit === undefined ? { ...seen, phase: "running" } : { ...seen, phase: "exited", exit };
    });
  }

  async preparation(): Promise<Preparation> {
    return (await this.prepared?.()) ?? { state: "ready" };
  }

  async fetch(workload: Workload, attempt: string): Promise<void> {
    this.fetched.push(`${workload.slot} ${workload.container?.image ?? ""} ${attempt}`);
  }

  async keepFetches(slot: string, images: readonly string[]): Promise<void> {
    const isKept = (line: string): boolean =>
      !line.startsWith(`${slot} `) || images.some((image) => line.startsWith(`${slot} ${image} `));
    this.fetched.splice(0, Infinity, ...this.fetched.filter(isKept));
  }

  async list(): Promise<readonly string[]> {
    return [...new Set([...this.#engines.values()].map(({ workload }) => workload.slot))];
  }

  async ensure(workload: Workload): Promise<void> {
    await this.beforeStart;
    const { slot, port, hash } = workload;
    const process = processName(workload);
    const key = `${slot}/${process}`;
    const known = this.#engines.get(key);
    if (known !== undefined && known.exit === undefined) {
      if (known.workload.hash !== hash || known.workload.port !== port) this.violations.push(`${key} was not stopped`);
      known.isPaused = false;
      return;
    }
    for (const [other, { workload: held, exit }] of this.#engines) {
      if (exit === undefined && held.port === port) this.violations.push(`${key} starts on ${other}'s port ${port}`);
    }
    const startedAt = this.#clock.now();
    const startedMs = this.#clock.elapsedMs();
    const engine: Engine = { workload, startedAt, startedMs, pid: ++this.#pid, exit: undefined };
    this.#engines.set(key, engine);
    const isPortTaken = this.strangers.has(port);
    this.deeds.push({ did: "start", slot, process, hash, at: startedAt, startedAt, isPortTaken });
    const { crashAfterMs, cannotStart, refusedFor } = this.manner(slot);
    const at = startedAt.toISOString();
    if (cannotStart && refusedFor !== undefined) engine.exit = { reason: refusedFor, message: "it was refused", at };
    else if (cannotStart || workload.command[0] === "/nope")
      engine.exit = { reason: "StartFailed", message: "no such program: /nope", at };
    else if (crashAfterMs !== undefined) {
      this.#clock.after(crashAfterMs, () => {
        if (this.#engines.get(key) !== engine) return;
        const now = this.#clock.now().toISOString();
        this.#end(slot, process, {
          reason: "Exited",
          code: 1,
          message: ["exited with code 1", this.manner(slot).lastOutput].filter(Boolean).join(": "),
          at: now,
        });
        this.#listeners.notify(slot);
      });
    }
    this.#listeners.notify(slot);
  }

  async remove(slot: string, process: ProcessRef | undefined): Promise<void> {
    await this.beforeRemoval;
    for (const [key, { workload, startedAt, exit }] of this.#engines) {
      if (workload.slot !== slot || (process !== undefined && !isSameProcess(workload, process))) continue;
      this.#engines.delete(key);
      const did = exit === undefined ? "stop" : "clear";
      const at = this.#clock.now();
      const isPortTaken = this.strangers.has(workload.port);
      this.deeds.push({ did, slot, process: processName(workload), hash: workload.hash, at, startedAt, isPortTaken });
      this.#listeners.notify(slot);
    }
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    return this.#listeners.add(onSlot);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /** Answers probes as the engine on that port would. */
  readonly probe: Probe = async ({ port, path, body, timeoutMs }) => {
    if (body !== undefined) this.warmUps.push({ port, timeoutMs });
    const engine = [...this.#engines.values()].find(
      ({ workload, exit }) => exit === undefined && workload.port === port,
    );
    if (engine === undefined || engine.isDeaf === true)
      return { outcome: "failed", message: `${path}: connect ECONNREFUSED` };
    if (engine.isPaused === true)
      return { outcome: "failed", message: `${path} did not answer within ${timeoutMs} ms` };
    const { startMs, loadMs, probe } = this.manner(engine.workload.slot);
    if (this.#clock.elapsedMs() < engine.startedMs + startMs + loadMs)
      return { outcome: "loading", message: `${path} answered 503: loading` };
    if (probe === "failing" || this.failing.has(port))
      return { outcome: "failed", message: `${path} answered 500: broken` };
    if (probe === "hanging") return { outcome: "failed", message: `${path} did not answer within 3000 ms` };
    if (probe === "warm-up-fails" && body !== undefined) return { outcome: "failed", message: `${path} answered 500` };
    return { outcome: "healthy" };
  };

  #of(slot: string): readonly Engine[] {
    const own = [...this.#engines.values()].filter(({ workload }) => workload.slot === slot);
    return own.toSorted((one, other) => compareProcesses(one.workload, other.workload));
  }

  #end(slot: string, process: string, exit: Exit): void {
    const engine = this.#engines.get(`${slot}/${process}`);
    if (engine !== undefined) engine.exit ??= exit;
  }
}
