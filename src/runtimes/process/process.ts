import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { processRoles } from "../../api/names.ts";
import { compareProcesses, processName, type ProcessRef, type SlotProcess } from "../../api/process-ref.ts";
import type { ProcessRecord } from "../../api/process-record.ts";
import type { Exit, Observed, Workload } from "../../api/workload.ts";
import { bootId } from "../../lib/boot-id.ts";
import { pidNamespace, readProc } from "../../lib/process-identity.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { environmentFor, startChild, type Given, type StartedChild } from "./child.ts";
import { EngineGroup } from "./engine-group.ts";
import { observed } from "./observed.ts";
import { exitOf, lastLine, type Ended } from "./exits.ts";
import { labelFor, Trust, type Label } from "./label.ts";
import { logFile } from "../logs/logs.ts";
import { listenersOn } from "./listeners.ts";
import { LogCap } from "./log-cap.ts";
import { findLostEngines } from "./lost-engines.ts";
import { ProcessRecords, recordKey } from "./records.ts";
import type { HostPorts } from "../host-ports.ts";
import type { EngineOwner, RemoveOptions, Runtime, RuntimeTraits } from "../runtime.ts";
import { hostPorts } from "./host-ports.ts";
import { processTraits } from "./traits.ts";
import { SocketWatch } from "./socket-watch.ts";
import { startFailure } from "../start-failure.ts";
import { findUser, ownUser, usersOfEngines } from "./user.ts";

export interface ProcessRuntimeOptions {
  readonly stateDir: string;
  /** The name of this installation in every engine's environment. */
  readonly instance: string;
  /** Runs engines as this user; only as root. */
  readonly engineUser?: string;
  /** Why slots may not run as processes here: earlier engines are still found and ended. Absent: they may. */
  readonly refusal?: string;
  /** The files that `valueFrom.file` may name; absent: any but a service account's. */
  readonly secrets?: SecretPlaces;
  /** Throws where this operator may not act any more; called before anything is started, signalled or written. */
  readonly check?: () => void;
  /** A larger log is moved to `.1` and starts empty. */
  readonly logBytes?: number;
  /** The environment whose permitted part engines get; default: `process.env`. */
  readonly inherited?: NodeJS.ProcessEnv;
}

const adoptedPollMs = 250;

/**
 * Runs engines as child processes that outlive this operator and are adopted by the next (docs/adr/0002). Only one may
 * be open per state directory: the caller holds the operator's lock.
 */
export async function openProcessRuntime(options: ProcessRuntimeOptions): Promise<Runtime> {
  await mkdir(join(options.stateDir, "logs"), { recursive: true });
  const records = await ProcessRecords.open(join(options.stateDir, "processes"), options.instance, options.check);
  const trust = new Trust(await usersOfEngines(options.engineUser));
  for (const lost of findLostEngines(options.instance, records.all(), trust)) await records.put(lost);
  return new ProcessRuntime(options, records, trust);
}

/** A child of this process: its end comes as an event, with code or signal. */
interface OwnChild {
  readonly pid: number;
  /** Settles once its exit is recorded. */
  readonly noted: Promise<void>;
}

class ProcessRuntime implements Runtime {
  readonly traits: RuntimeTraits;
  readonly hostPorts: HostPorts;
  readonly #options: ProcessRuntimeOptions;
  readonly #records: ProcessRecords;
  readonly #trust: Trust;
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #own = new Map<string, OwnChild>();
  /** Adopted processes whose label was verified: pid, start time. */
  readonly #proven = new Set<string>();
  readonly #sockets = new SocketWatch((slot) => this.#notify(slot));
  readonly #logs: LogCap;
  #adoptedTimer: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();

  constructor(options: ProcessRuntimeOptions, records: ProcessRecords, trust: Trust) {
    this.traits = { ...processTraits, ...(options.refusal === undefined ? {} : { refusal: options.refusal }) };
    this.#options = options;
    this.#records = records;
    this.#trust = trust;
    this.hostPorts = hostPorts(join(options.stateDir, "processes"));
    this.#logs = new LogCap(options, records);
    this.#followAdopted();
  }

  async engineOwner(): Promise<EngineOwner | undefined> {
    return await findUser(this.#options.engineUser);
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const found: Observed[] = [];
    for (const record of this.#recordsOf(slot)) {
      const seen = await this.#observe(record);
      if (seen !== undefined) found.push(seen);
    }
    return found;
  }

  async list(): Promise<readonly string[]> {
    return [...new Set(this.#records.all().map(({ slot }) => slot))];
  }

  async ensure(workload: Workload): Promise<void> {
    const { slot } = workload;
    const known = this.#records.get(workload);
    if (known !== undefined && this.#isRunning(known)) {
      if (known.hash === workload.hash && known.port === workload.port) return;
      throw new Error(`another version of ${slot} (${processName(workload)}) still runs as process ${known.pid}`);
    }
    // The rest of a crashed engine would keep its memory and its port.
    await this.#groupOf(workload).end({ stopSeconds: 0 }, this.#closing.signal, this.#options.check);
    await this.#logs.rotate(workload);
    const label = labelFor(workload, this.#options.instance, randomUUID());
    const base: Omit<ProcessRecord, keyof StartedChild> = {
      schema: 1,
      ...label,
      bootId: bootId(),
      pidNamespace: pidNamespace(),
      startedAt: new Date().toISOString(),
    };
    let child: StartedChild & Pick<Given, "bearer">;
    try {
      child = await this.#start(workload, label);
    } catch (error) {
      const message = startFailure(error, workload);
      if (message === undefined) throw error;
      const exit: Exit = { reason: "StartFailed", message, at: new Date().toISOString() };
      await this.#records.put({ ...base, uid: ownUser(), pid: 0, startTime: "never", logOffset: 0, exit });
      this.#notify(slot);
      return;
    }
    const { ended, ...rest } = child;
    const made: ProcessRecord = { ...base, ...rest };
    // Registered before the record is written: from here on this child cannot be lost.
    const written = this.#records.put(made);
    this.#own.set(recordKey(workload), { pid: made.pid, noted: ended.then((end) => this.#onOwnEnded(made, end)) });
    this.#notify(slot);
    await written;
  }

  async remove(slot: string, process: ProcessRef | undefined, options: RemoveOptions): Promise<void> {
    // Ordinal 0 also without a record: a process with its label is ended.
    const first = processRoles.map((role) => ({ slot, role, ordinal: 0 }));
    const all = [...first, ...this.#recordsOf(slot).filter(({ ordinal }) => ordinal > 0)];
    const ending = process === undefined ? all : [{ ...process, slot }];
    await Promise.all(ending.map((each) => this.#remove(each, options)));
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    return this.#subscribers.add(onSlot);
  }

  /** Engines keep running; those that are being ended are left to the next operator. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the operator is being stopped"));
    this.#subscribers.clear();
    this.#sockets[Symbol.dispose]();
    this.#logs[Symbol.dispose]();
    clearInterval(this.#adoptedTimer);
    await this.#records.settled();
  }

  async #start(workload: Workload, label: Label): Promise<StartedChild & Pick<Given, "bearer">> {
    const { inherited, engineUser, secrets } = this.#options;
    const user = await findUser(engineUser);
    const { env, ...bearer } = await environmentFor(workload, secrets, inherited ?? process.env, label, {
      user,
      stateDir: this.#options.stateDir,
    });
    const logPath = logFile(this.#options.stateDir, workload);
    this.#options.check?.();
    return { ...(await startChild(workload, { env, logPath, user })), ...bearer };
  }

  #recordsOf(slot: string): readonly ProcessRecord[] {
    return this.#records
      .all()
      .filter((record) => record.slot === slot)
      .toSorted(compareProcesses);
  }

  async #observe(process: SlotProcess): Promise<Observed | undefined> {
    // Another process of the slot was observed before: this one may have been removed meanwhile.
    const record = this.#records.get(process);
    if (record === undefined) return undefined;
    if (this.#isRunning(record)) {
      const inodes = await listenersOn(record.port);
      const isListening = inodes.size > 0 && this.#groupOf(record).holds(inodes);
      this.#sockets.note(record, isListening);
      return observed(record, { isListening, isPortTaken: inodes.size > 0 && !isListening });
    }
    const own = this.#own.get(recordKey(record));
    // The kernel has its end; code and signal arrive with the event of this turn or the next.
    if (record.exit === undefined && own?.pid === record.pid) await own.noted;
    const exit = this.#records.get(record)?.exit ?? (await this.#noteExit(record, undefined));
    return { ...observed(record, { isListening: false, isPortTaken: false }), phase: "exited", exit };
  }

  async #remove(process: SlotProcess, options: RemoveOptions): Promise<void> {
    await this.#groupOf(process).end(options, this.#closing.signal, this.#options.check);
    const key = recordKey(process);
    await this.#own.get(key)?.noted;
    if (this.#records.get(process) === undefined) return;
    await this.#records.remove(process);
    this.#notify(process.slot);
  }

  #groupOf({ slot, role, ordinal }: SlotProcess): EngineGroup {
    const record = this.#records.get({ slot, role, ordinal });
    const isProven = record !== undefined && this.#isRunning(record);
    const identity = { instance: this.#options.instance, slot, role, ordinal, record, trust: this.#trust };
    return new EngineGroup(identity, isProven ? record : undefined);
  }

  /**
   * Boot, pid namespace, pid, start time, user and the secret of the start identify one process; a zombie is gone
   * (DECISIONS 10, docs/adr/0006). A child that has not been reaped needs no label: the kernel does not reuse its pid.
   */
  #isRunning(record: ProcessRecord): boolean {
    const { pid, startTime } = record;
    if (record.exit !== undefined) return false;
    if (record.bootId !== bootId() || record.pidNamespace !== pidNamespace()) return false;
    if (readProc(pid)?.startTime !== startTime) return false;
    const identity = `${pid} ${startTime}`;
    if (this.#proven.has(identity) || this.#own.get(recordKey(record))?.pid === pid) return true;
    const isOurs = this.#trust.isRecorded(record);
    if (isOurs) this.#proven.add(identity);
    return isOurs;
  }

  async #onOwnEnded(record: ProcessRecord, end: Ended): Promise<void> {
    // The next operator notices by itself.
    if (this.#closing.signal.aborted) return;
    await this.#noteExit(record, end);
    const key = recordKey(record);
    if (this.#own.get(key)?.pid === record.pid) this.#own.delete(key);
    this.#notify(record.slot);
  }

  /**
   * Never rejects: an exit that cannot be written is still known here, and the next operator will see that the process
   * is gone.
   */
  async #noteExit(record: ProcessRecord, end: Ended): Promise<Exit> {
    const log = logFile(this.#options.stateDir, record);
    const hint = await lastLine(log, record.logOffset, undefined, end === undefined || end.signal !== null);
    const unseen =
      record.bootId === bootId()
        ? "how it ended is not known, since an earlier operator had started it"
        : "ended when the machine was restarted";
    const current = this.#records.get(record);
    if (current?.start === record.start && current.exit !== undefined) return current.exit;
    const exit = exitOf(end, hint, unseen);
    if (current?.start === record.start) await this.#records.put({ ...current, exit }).catch(() => undefined);
    return exit;
  }

  #notify(slot: string): void {
    this.#followAdopted();
    this.#subscribers.notify(slot);
  }

  /** Adopted processes end without an event: they are checked four times a second while there are any. */
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
        void this.#noteExit(record, undefined).then(() => this.#notify(record.slot));
      }
    }, adoptedPollMs).unref();
  }

  /** False also where the check is not possible now: the next one is soon. */
  #isSeenGone(record: ProcessRecord): boolean {
    try {
      return !this.#isRunning(record);
    } catch {
      return false;
    }
  }

  #adopted(): readonly ProcessRecord[] {
    return this.#records.all().filter((record) => record.exit === undefined && !this.#own.has(recordKey(record)));
  }
}
