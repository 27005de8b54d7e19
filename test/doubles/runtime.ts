import type { ProcessRole } from "../../src/api/names.ts";
import type { Exit, Observed, Workload } from "../../src/api/workload.ts";
import type { Probe } from "../../src/operator/probe.ts";
import type { Preparation, Runtime } from "../../src/runtimes/runtime.ts";
import type { ManualClock } from "./clock.ts";

/** How the engines of one slot behave from their next look on. */
export interface Manner {
  /** Between the start and the first listening socket. */
  startMs: number;
  /** Between listening and the first healthy probe. */
  loadMs: number;
  /** It ends by itself this long after each start. */
  crashAfterMs: number | undefined;
  /** What it says of that. */
  lastWords?: string;
  /** It cannot be started at all; nor can, whatever this says, the program /nope. */
  cannotStart: boolean;
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
  exit: Exit | undefined;
  /** It has closed its listening socket, and lives. */
  isDeaf?: true;
}

/** What the runtime was told to do, in order. */
export interface Deed {
  readonly did: "start" | "stop" | "clear";
  readonly slot: string;
  readonly role: ProcessRole;
  readonly hash: string;
  readonly at: Date;
  readonly startedAt: Date;
  /** Somebody else had its port then. */
  readonly isPortTaken: boolean;
}

/** A DOUBLE for a machine that runs engines: no process, only what would be seen of one. It outlives operators. */
export class RuntimeDouble implements Runtime {
  readonly kind = "process";
  readonly deeds: Deed[] = [];
  /** What no operator may bring about. */
  readonly violations: string[] = [];
  /** Ports on which somebody else listens. */
  readonly strangers = new Set<number>();
  /** Every start waits for it: programs that take their time to be refused. */
  beforeStart: Promise<void> | undefined;
  /** Every removal waits for it: engines that take their time to end. */
  beforeRemoval: Promise<void> | undefined;
  /** Warm-up requests so far. */
  readonly warmUps: { readonly port: number; readonly timeoutMs: number }[] = [];
  /** What is said of what a container needs; absent: all is here. */
  preparation: (() => Promise<Preparation>) | undefined;
  readonly #clock: ManualClock;
  readonly #engines = new Map<string, Engine>();
  readonly #manners = new Map<string, Manner>();
  readonly #listeners = new Set<(slot: string) => void>();
  #pid = 1000;
  #lookedAt = 0;
  #looks = 0;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  manner(slot: string): Manner {
    const manner = this.#manners.get(slot) ?? { ...wellBehaved };
    this.#manners.set(slot, manner);
    return manner;
  }

  running(slot: string): readonly ProcessRole[] {
    return this.#of(slot).flatMap(({ workload, exit }) => (exit === undefined ? [workload.role] : []));
  }

  portOf(slot: string, role: ProcessRole = "main"): number | undefined {
    return this.#engines.get(`${slot}/${role}`)?.workload.port;
  }

  /** Ends an engine as the kernel would; nothing happens when it does not run. */
  kill(slot: string, role: ProcessRole = "main", isTold = true): void {
    const message = "killed by SIGKILL";
    this.#end(slot, role, { reason: "Signalled", signal: "SIGKILL", message, at: this.#clock.now().toISOString() });
    if (isTold) this.#tell(slot);
  }

  /** It closes its listening socket, and lives on. */
  deafen(slot: string, role: ProcessRole = "main"): void {
    const engine = this.#engines.get(`${slot}/${role}`);
    if (engine !== undefined) engine.isDeaf = true;
    this.#tell(slot);
  }

  /** It is gone with all that was known of it, as after a reboot. */
  lose(slot: string, role: ProcessRole = "main"): void {
    this.#engines.delete(`${slot}/${role}`);
    this.#tell(slot);
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const now = this.#clock.elapsedMs();
    this.#looks = now === this.#lookedAt ? this.#looks + 1 : 0;
    this.#lookedAt = now;
    if (this.#looks > 500) throw new Error(`${slot} is looked at again and again, and no time goes by`);
    return this.#of(slot).map(({ workload, startedAt, startedMs, pid, exit, isDeaf = false }) => {
      const { role, hash, port, bearer } = workload;
      const isPortTaken = exit === undefined && this.strangers.has(port);
      const isUp = exit === undefined && !isDeaf && now >= startedMs + this.manner(slot).startMs;
      const place = { slot, role, hash, port, startedAt, id: { pid } };
      const secret = bearer === undefined ? {} : { bearer: `bearer-${pid}` };
      const seen = { ...place, ...secret, isPortTaken, isListening: isUp && !isPortTaken };
      return exit === undefined ? { ...seen, phase: "running" } : { ...seen, phase: "exited", exit };
    });
  }

  async prepare(): Promise<Preparation> {
    return (await this.preparation?.()) ?? { state: "ready" };
  }

  async list(): Promise<readonly string[]> {
    return [...new Set([...this.#engines.values()].map(({ workload }) => workload.slot))];
  }

  async ensure(workload: Workload): Promise<void> {
    await this.beforeStart;
    const { slot, role, port, hash } = workload;
    const key = `${slot}/${role}`;
    const known = this.#engines.get(key);
    if (known !== undefined && known.exit === undefined) {
      if (known.workload.hash !== hash || known.workload.port !== port) this.violations.push(`${key} was not stopped`);
      return;
    }
    for (const [other, { workload: held, exit }] of this.#engines) {
      if (exit === undefined && held.port === port) this.violations.push(`${key} starts on ${other}'s port ${port}`);
    }
    const startedAt = this.#clock.now();
    const engine: Engine = {
      workload,
      startedAt,
      startedMs: this.#clock.elapsedMs(),
      pid: ++this.#pid,
      exit: undefined,
    };
    this.#engines.set(key, engine);
    this.deeds.push({
      did: "start",
      slot,
      role,
      hash,
      at: startedAt,
      startedAt,
      isPortTaken: this.strangers.has(port),
    });
    const { crashAfterMs, cannotStart } = this.manner(slot);
    const at = startedAt.toISOString();
    if (cannotStart || workload.command[0] === "/nope")
      engine.exit = { reason: "StartFailed", message: "no such program: /nope", at };
    else if (crashAfterMs !== undefined) {
      this.#clock.after(crashAfterMs, () => {
        if (this.#engines.get(key) !== engine) return;
        const now = this.#clock.now().toISOString();
        this.#end(slot, role, {
          reason: "Exited",
          code: 1,
          message: ["exited with code 1", this.manner(slot).lastWords].filter(Boolean).join(": "),
          at: now,
        });
        this.#tell(slot);
      });
    }
    this.#tell(slot);
  }

  async remove(slot: string, role: ProcessRole | undefined): Promise<void> {
    await this.beforeRemoval;
    for (const [key, { workload, startedAt, exit }] of this.#engines) {
      if (workload.slot !== slot || (role !== undefined && workload.role !== role)) continue;
      this.#engines.delete(key);
      const did = exit === undefined ? "stop" : "clear";
      const at = this.#clock.now();
      const isPortTaken = this.strangers.has(workload.port);
      this.deeds.push({ did, slot, role: workload.role, hash: workload.hash, at, startedAt, isPortTaken });
      this.#tell(slot);
    }
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    this.#listeners.add(onSlot);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onSlot) };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /** Answers probes as the engine on that port would. */
  readonly probe: Probe = async ({ port, path, body, timeoutMs }) => {
    if (body !== undefined) this.warmUps.push({ port, timeoutMs });
    const engine = [...this.#engines.values()].find(
      ({ workload, exit }) => exit === undefined && workload.port === port,
    );
    if (engine === undefined) return { outcome: "failed", message: `${path}: connect ECONNREFUSED` };
    const { startMs, loadMs, probe } = this.manner(engine.workload.slot);
    if (this.#clock.elapsedMs() < engine.startedMs + startMs + loadMs)
      return { outcome: "loading", message: `${path} answered 503: loading` };
    if (probe === "failing") return { outcome: "failed", message: `${path} answered 500: broken` };
    if (probe === "hanging") return { outcome: "failed", message: `${path} did not answer within 3000 ms` };
    if (probe === "warm-up-fails" && body !== undefined) return { outcome: "failed", message: `${path} answered 500` };
    return { outcome: "healthy" };
  };

  #of(slot: string): readonly Engine[] {
    return [...this.#engines.values()].filter(({ workload }) => workload.slot === slot);
  }

  #end(slot: string, role: ProcessRole, exit: Exit): void {
    const engine = this.#engines.get(`${slot}/${role}`);
    if (engine !== undefined) engine.exit ??= exit;
  }

  #tell(slot: string): void {
    for (const listener of this.#listeners) listener(slot);
  }
}
