import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { processRoles, type ProcessRole } from "../api/names.ts";
import type { ProcessRecord } from "../api/process-record.ts";
import type { Exit, Observed, Workload } from "../api/workload.ts";
import { bootId } from "../lib/boot-id.ts";
import { pidNamespace, readProc } from "../lib/process-identity.ts";
import { everySecond } from "../lib/pulse.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { environmentFor, startChild, type Given, type StartedChild } from "./child.ts";
import { EngineGroup } from "./engine-group.ts";
import { exitOf, lastLine, type Ended } from "./exits.ts";
import { labelFor, Trust } from "./label.ts";
import { defaultLogBytes, rotateLog } from "./log-rotation.ts";
import { logFile } from "./logs.ts";
import { listenersOn } from "./listeners.ts";
import { findLostEngines } from "./lost-engines.ts";
import { RecordBook, recordKey } from "./records.ts";
import type { RemoveOptions, Runtime } from "./runtime.ts";
import { SocketWatch } from "./socket-watch.ts";
import { startFailure } from "./start-failure.ts";
import { findUser, usersOfEngines } from "./user.ts";

export interface ProcessRuntimeOptions {
  readonly stateDir: string;
  /** Names this installation in every engine's environment. */
  readonly instance: string;
  /** Runs engines as this user; only as root. */
  readonly engineUser?: string;
  /** A log that grows past this is moved to `.1` and begins anew. */
  readonly logBytes?: number;
  /** The environment of which engines get the allowed part; `process.env` unless given. */
  readonly inherited?: NodeJS.ProcessEnv;
}

const adoptedPollMs = 250;

/**
 * Runs engines as child processes that outlive this operator and are adopted by the next (docs/adr/0002). Only one
 * may be open per state directory: the caller holds the operator's lock.
 */
export async function openProcessRuntime(options: ProcessRuntimeOptions): Promise<Runtime> {
  await mkdir(join(options.stateDir, "logs"), { recursive: true });
  const records = await RecordBook.open(join(options.stateDir, "processes"), options.instance);
  const trust = new Trust(await usersOfEngines(options.engineUser));
  for (const lost of findLostEngines(options.instance, records.all(), trust)) await records.put(lost);
  return new ProcessRuntime(options, records, trust);
}

/** A child of this very process: its end comes as an event, with code or signal. */
interface OwnChild {
  readonly pid: number;
  /** Settles once its exit is noted. */
  readonly noted: Promise<void>;
}

class ProcessRuntime implements Runtime {
  readonly kind = "process";
  readonly #options: ProcessRuntimeOptions;
  readonly #records: RecordBook;
  readonly #trust: Trust;
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #own = new Map<string, OwnChild>();
  /** Adopted processes whose label was read: pid, start time. */
  readonly #proven = new Set<string>();
  readonly #sockets = new SocketWatch((slot) => this.#tell(slot));
  readonly #logLooks: Disposable;
  #adoptedTimer: NodeJS.Timeout | undefined;
  #isCappingLogs = false;
  readonly #closing = new AbortController();

  constructor(options: ProcessRuntimeOptions, records: RecordBook, trust: Trust) {
    this.#options = options;
    this.#records = records;
    this.#trust = trust;
    this.#logLooks = everySecond(() => void this.#capLogs());
    this.#followAdopted();
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const found: Observed[] = [];
    for (const role of processRoles) {
      const seen = await this.#observeRole(slot, role);
      if (seen !== undefined) found.push(seen);
    }
    return found;
  }

  async list(): Promise<readonly string[]> {
    return [...new Set(this.#records.all().map(({ slot }) => slot))];
  }

  async ensure(workload: Workload): Promise<void> {
    const { slot, role } = workload;
    const known = this.#records.get(slot, role);
    if (known !== undefined && this.#isRunning(known)) {
      if (known.hash === workload.hash && known.port === workload.port) return;
      throw new Error(`another version of ${slot} (${role}) still runs as process ${known.pid}`);
    }
    // What an engine that crashed has left would keep its memory and its port.
    await this.#groupOf(slot, role).end({ stopSeconds: 0 }, this.#closing.signal);
    await this.#rotate(slot, role);
    const start = randomUUID();
    const base: Omit<ProcessRecord, keyof StartedChild> = {
      schema: 1,
      ...labelFor(workload, this.#options.instance, start),
      bootId: bootId(),
      pidNamespace: pidNamespace(),
      startedAt: new Date().toISOString(),
    };
    let child: StartedChild & Pick<Given, "bearer">;
    try {
      child = await this.#start(workload, start);
    } catch (error) {
      const message = startFailure(error, workload);
      if (message === undefined) throw error;
      const exit: Exit = { reason: "StartFailed", message, at: new Date().toISOString() };
      await this.#records.put({ ...base, pid: 0, startTime: "never", logOffset: 0, exit });
      this.#tell(slot);
      return;
    }
    const { ended, ...rest } = child;
    const made: ProcessRecord = { ...base, ...rest };
    // Told before the record is written: from here on nothing can lose this child.
    const written = this.#records.put(made);
    this.#own.set(recordKey(slot, role), { pid: made.pid, noted: ended.then((end) => this.#onOwnEnded(made, end)) });
    this.#tell(slot);
    await written;
  }

  async remove(slot: string, role: ProcessRole | undefined, options: RemoveOptions): Promise<void> {
    const roles = role === undefined ? processRoles : [role];
    await Promise.all(roles.map((each) => this.#removeRole(slot, each, options)));
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    return this.#subscribers.add(onSlot);
  }

  /** Engines keep running; those that are being ended are left to whoever comes next. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the operator is being stopped"));
    this.#subscribers.clear();
    this.#sockets[Symbol.dispose]();
    this.#logLooks[Symbol.dispose]();
    clearInterval(this.#adoptedTimer);
    await this.#records.settled();
  }

  async #start(workload: Workload, start: string): Promise<StartedChild & Pick<Given, "bearer">> {
    const { instance, inherited, engineUser } = this.#options;
    const user = await findUser(engineUser);
    const label = labelFor(workload, instance, start);
    const { env, ...bearer } = await environmentFor(workload, inherited ?? process.env, label, user);
    const logPath = this.#logOf(workload.slot, workload.role);
    return { ...(await startChild(workload, { env, logPath, user })), ...bearer };
  }

  async #observeRole(slot: string, role: ProcessRole): Promise<Observed | undefined> {
    const record = this.#records.get(slot, role);
    if (record === undefined) return undefined;
    if (this.#isRunning(record)) {
      const inodes = await listenersOn(record.port);
      const isListening = inodes.size > 0 && this.#groupOf(slot, role).holds(inodes);
      this.#sockets.note({ slot, role, port: record.port }, isListening);
      return observed(record, { isListening, isPortTaken: inodes.size > 0 && !isListening });
    }
    const own = this.#own.get(recordKey(slot, role));
    // Its end is known to the kernel; code and signal arrive with the event of this turn or the next.
    if (record.exit === undefined && own?.pid === record.pid) await own.noted;
    const exit = this.#records.get(slot, role)?.exit ?? (await this.#noteExit(record, undefined));
    return { ...observed(record, { isListening: false, isPortTaken: false }), phase: "exited", exit };
  }

  async #removeRole(slot: string, role: ProcessRole, options: RemoveOptions): Promise<void> {
    await this.#groupOf(slot, role).end(options, this.#closing.signal);
    const key = recordKey(slot, role);
    await this.#own.get(key)?.noted;
    if (this.#records.get(slot, role) === undefined) return;
    await this.#records.remove(slot, role);
    this.#tell(slot);
  }

  #groupOf(slot: string, role: ProcessRole): EngineGroup {
    const record = this.#records.get(slot, role);
    const isProven = record !== undefined && this.#isRunning(record);
    const identity = { instance: this.#options.instance, slot, role, record, trust: this.#trust };
    return new EngineGroup(identity, isProven ? record : undefined);
  }

  /**
   * Boot, pid namespace, pid, start time, user and the secret of the start name one process; a zombie is gone
   * (DECISIONS 10, docs/adr/0006). For a child that has not been reaped no label is needed: the kernel gives its pid to
   * nobody else.
   */
  #isRunning(record: ProcessRecord): boolean {
    const { pid, startTime, slot, role } = record;
    if (record.exit !== undefined) return false;
    if (record.bootId !== bootId() || record.pidNamespace !== pidNamespace()) return false;
    if (readProc(pid)?.startTime !== startTime) return false;
    const identity = `${pid} ${startTime}`;
    if (this.#proven.has(identity) || this.#own.get(recordKey(slot, role))?.pid === pid) return true;
    const isOurs = this.#trust.isRecorded(record);
    if (isOurs) this.#proven.add(identity);
    return isOurs;
  }

  async #onOwnEnded(record: ProcessRecord, end: Ended): Promise<void> {
    // Its successor notices by itself.
    if (this.#closing.signal.aborted) return;
    await this.#noteExit(record, end);
    const key = recordKey(record.slot, record.role);
    if (this.#own.get(key)?.pid === record.pid) this.#own.delete(key);
    this.#tell(record.slot);
  }

  /** Never rejects: an exit that cannot be written is still known here, and a successor will see that it is gone. */
  async #noteExit(record: ProcessRecord, end: Ended): Promise<Exit> {
    const log = this.#logOf(record.slot, record.role);
    const hint = await lastLine(log, record.logOffset, undefined, end?.signal === "SIGKILL");
    const unseen =
      record.bootId === bootId()
        ? "ended unseen: it was not started by this operator"
        : "ended when the machine was restarted";
    const current = this.#records.get(record.slot, record.role);
    if (current?.start === record.start && current.exit !== undefined) return current.exit;
    const exit = exitOf(end, hint, unseen);
    if (current?.start === record.start) await this.#records.put({ ...current, exit }).catch(() => undefined);
    return exit;
  }

  #tell(slot: string): void {
    this.#followAdopted();
    this.#subscribers.tell(slot);
  }

  /** Adopted processes end without an event: looked at four times a second while there are any. */
  #followAdopted(): void {
    const adopted = this.#adopted();
    if (adopted.length === 0 || this.#closing.signal.aborted) {
      clearInterval(this.#adoptedTimer);
      this.#adoptedTimer = undefined;
      return;
    }
    this.#adoptedTimer ??= setInterval(() => {
      for (const record of this.#adopted()) {
        if (!this.#isSeenGone(record)) continue;
        void this.#noteExit(record, undefined).then(() => this.#tell(record.slot));
      }
    }, adoptedPollMs).unref();
  }

  /** False also where a look is not possible now: the next one is soon. */
  #isSeenGone(record: ProcessRecord): boolean {
    try {
      return !this.#isRunning(record);
    } catch {
      return false;
    }
  }

  #adopted(): readonly ProcessRecord[] {
    return this.#records
      .all()
      .filter(({ slot, role, exit }) => exit === undefined && !this.#own.has(recordKey(slot, role)));
  }

  #logOf(slot: string, role: ProcessRole): string {
    return logFile(this.#options.stateDir, slot, role);
  }

  async #capLogs(): Promise<void> {
    if (this.#isCappingLogs) return;
    this.#isCappingLogs = true;
    await this.#records.restore();
    for (const { slot, role, exit } of this.#records.all()) if (exit === undefined) await this.#rotate(slot, role);
    this.#isCappingLogs = false;
  }

  /** A log that cannot be cut now is tried again soon; no engine suffers for it. */
  async #rotate(slot: string, role: ProcessRole): Promise<void> {
    await rotateLog(this.#logOf(slot, role), this.#options.logBytes ?? defaultLogBytes).catch(() => undefined);
  }
}

function observed(record: ProcessRecord, port: Pick<Observed, "isListening" | "isPortTaken">): Observed {
  const { slot, role, hash, pid, bearer } = record;
  const startedAt = new Date(record.startedAt);
  const secret = bearer === undefined ? {} : { bearer };
  return { slot, role, hash, port: record.port, phase: "running", ...port, startedAt, ...secret, id: { pid } };
}
