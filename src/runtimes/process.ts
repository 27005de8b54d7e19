import { mkdirSync } from "node:fs";
import { open, readFile, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { processRoles, type ProcessRole } from "../api/names.ts";
import type { Exit, Observed, Workload } from "../api/workload.ts";
import type { ProcessRecord } from "../api/process-record.ts";
import { bootId } from "../lib/boot-id.ts";
import { errorCode } from "../lib/error-code.ts";
import { environmentFor, startChild } from "./child.ts";
import { logFile, tailLogs } from "./logs.ts";
import { environmentOf, listeningInodes, listProcs, ownsSocket, pidNamespace, readProc, startedAt } from "./proc.ts";
import { RecordBook, recordKey } from "./records.ts";
import type { LogLine, RemoveOptions, Runtime } from "./runtime.ts";

export interface ProcessRuntimeOptions {
  readonly stateDir: string;
  /** Names this installation in every engine's environment. */
  readonly instance: string;
  /** Runs engines as this user; only as root. */
  readonly engineUser?: string;
  /** A log is cut to its newer half when it grows past this. */
  readonly logBytes?: number;
  readonly inherited?: NodeJS.ProcessEnv;
}

const defaultLogBytes = 16 * 1024 * 1024;
const adoptedPollMs = 250;
const logCheckMs = 5000;

/** Runs engines as child processes that outlive this operator and are adopted by the next. */
export async function openProcessRuntime(options: ProcessRuntimeOptions): Promise<Runtime> {
  const records = await RecordBook.open(join(options.stateDir, "processes"));
  mkdirSync(join(options.stateDir, "logs"), { recursive: true });
  const runtime = new ProcessRuntime(options, records);
  await runtime.findOrphans();
  return runtime;
}

class ProcessRuntime implements Runtime {
  readonly kind = "process";
  readonly #options: ProcessRuntimeOptions;
  readonly #records: RecordBook;
  readonly #listeners = new Set<(slot: string) => void>();
  /** Children of this very process: their end comes as an event. */
  readonly #own = new Map<string, { readonly pid: number; readonly ended: Promise<Exit> }>();
  readonly #timers: NodeJS.Timeout[] = [];
  #adoptedTimer: NodeJS.Timeout | undefined;

  constructor(options: ProcessRuntimeOptions, records: RecordBook) {
    this.#options = options;
    this.#records = records;
    const timer = setInterval(() => void this.#capLogs(), logCheckMs);
    timer.unref();
    this.#timers.push(timer);
    this.#followAdopted();
  }

  /** An engine that was started just before a crash has no record: its label tells what it is. */
  async findOrphans(): Promise<void> {
    for (const { pid, group, startTime } of listProcs()) {
      if (pid !== group) continue;
      const environment = environmentOf(pid);
      if (environment?.get("BERTH_INSTANCE") !== this.#options.instance) continue;
      const slot = environment.get("BERTH_SLOT");
      const role = processRoles.find((known) => known === environment.get("BERTH_ROLE"));
      if (slot === undefined || role === undefined) continue;
      const known = this.#records.get(slot, role);
      if (known !== undefined && known.exit === undefined && this.#isAlive(known)) continue;
      await this.#records.put({
        schema: 1,
        instance: this.#options.instance,
        slot,
        role,
        hash: environment.get("BERTH_HASH") ?? "",
        port: Number(environment.get("BERTH_PORT")),
        bootId: bootId(),
        pidNamespace: pidNamespace(),
        pid,
        startTime,
        startedAt: startedAt(startTime).toISOString(),
      });
    }
    this.#followAdopted();
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const found: Observed[] = [];
    for (const role of processRoles) {
      const record = this.#records.get(slot, role);
      if (record === undefined) continue;
      if (record.exit === undefined && this.#isAlive(record)) {
        const inodes = listeningInodes(record.port);
        const isListening = inodes.size > 0 && this.#members(record).some((pid) => ownsSocket(pid, inodes));
        found.push(this.#observed(record, "running", isListening, inodes.size > 0 && !isListening));
      } else {
        const exit = record.exit ?? (await this.#exitOf(record));
        found.push({ ...this.#observed(record, "exited", false, false), exit });
      }
    }
    return found;
  }

  async list(): Promise<readonly string[]> {
    return [...new Set(this.#records.all().map(({ slot }) => slot))];
  }

  async ensure(workload: Workload): Promise<void> {
    const { slot, role } = workload;
    const record = this.#records.get(slot, role);
    if (record !== undefined && record.exit === undefined && this.#isAlive(record)) {
      if (record.hash === workload.hash && record.port === workload.port) return;
      throw new Error(`another version of ${slot} (${role}) still runs as process ${record.pid}`);
    }
    const { instance } = this.#options;
    const label = {
      BERTH_INSTANCE: instance,
      BERTH_SLOT: slot,
      BERTH_ROLE: role,
      BERTH_HASH: workload.hash,
      BERTH_PORT: String(workload.port),
    };
    const started = new Date();
    const base = {
      schema: 1 as const,
      instance,
      slot,
      role,
      hash: workload.hash,
      port: workload.port,
      bootId: bootId(),
      pidNamespace: pidNamespace(),
      startedAt: started.toISOString(),
    };
    try {
      const child = await startChild(workload, {
        env: await environmentFor(workload, this.#options.inherited ?? process.env, label),
        logPath: logFile(this.#options.stateDir, slot, role),
        ...(await this.#user()),
      });
      const pid = child.pid ?? 0;
      const key = recordKey(slot, role);
      const made: ProcessRecord = { ...base, pid, startTime: readProc(pid)?.startTime ?? "gone" };
      const ended = new Promise<Exit>((resolve) => {
        child.once("exit", (code, signal) => {
          resolve(this.#noteExit(made, code, signal));
        });
      });
      this.#own.set(key, { pid, ended });
      void ended.then(() => {
        if (this.#own.get(key)?.pid === pid) this.#own.delete(key);
        this.#tell(slot);
      });
      await this.#records.put(made);
    } catch (error) {
      const message = startFailure(error, workload);
      const exit: Exit = { reason: "StartFailed", message, at: new Date().toISOString() };
      await this.#records.put({ ...base, pid: 0, startTime: "never", exit });
    }
    this.#tell(slot);
  }

  async remove(slot: string, role: ProcessRole | undefined, options: RemoveOptions): Promise<void> {
    const roles = role === undefined ? processRoles : [role];
    await Promise.all(roles.map((each) => this.#removeRole(slot, each, options)));
  }

  logs(slot: string, options: { tail: number; follow: boolean; signal?: AbortSignal }): AsyncIterable<LogLine> {
    return tailLogs(this.#options.stateDir, slot, options);
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    this.#listeners.add(onSlot);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onSlot) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
    for (const timer of this.#timers) clearInterval(timer);
    clearInterval(this.#adoptedTimer);
  }

  #tell(slot: string): void {
    this.#followAdopted();
    for (const listener of this.#listeners) listener(slot);
  }

  #observed(record: ProcessRecord, phase: Observed["phase"], isListening: boolean, isPortTaken: boolean): Observed {
    const { slot, role, hash, port, pid } = record;
    return {
      slot,
      role,
      hash,
      port,
      phase,
      isListening,
      isPortTaken,
      startedAt: new Date(record.startedAt),
      id: { pid },
    };
  }

  /** Boot, pid namespace, pid and start time together name one process; a zombie is gone (DECISIONS 10). */
  #isAlive(record: ProcessRecord): boolean {
    if (record.bootId !== bootId() || record.pidNamespace !== pidNamespace()) return false;
    return readProc(record.pid)?.startTime === record.startTime;
  }

  /** Every live pid that is provably of this engine: in its group or session, or carrying its label. */
  #members(record: ProcessRecord): number[] {
    const isOurs = (environment: ReadonlyMap<string, string> | undefined): boolean =>
      environment?.get("BERTH_INSTANCE") === record.instance &&
      environment.get("BERTH_SLOT") === record.slot &&
      environment.get("BERTH_ROLE") === record.role;
    return listProcs()
      .filter(({ group, session }) => group === record.pid || session === record.pid)
      .filter(({ pid }) => pid === record.pid || isOurs(environmentOf(pid)))
      .map(({ pid }) => pid);
  }

  /** Also those that left the group: only a scan of every environment finds them. */
  #remaining(record: ProcessRecord): { pid: number; startTime: string }[] {
    return listProcs().filter(({ pid, startTime }) => {
      if (pid === record.pid) return startTime === record.startTime;
      const environment = environmentOf(pid);
      return (
        environment?.get("BERTH_INSTANCE") === record.instance &&
        environment.get("BERTH_SLOT") === record.slot &&
        environment.get("BERTH_ROLE") === record.role
      );
    });
  }

  #signal(record: ProcessRecord, signal: NodeJS.Signals): void {
    for (const { pid, startTime } of this.#remaining(record)) {
      // Between the look and the signal a pid could be given to another: the start time is read again.
      if (readProc(pid)?.startTime !== startTime) continue;
      try {
        process.kill(pid, signal);
      } catch (error) {
        if (errorCode(error) !== "ESRCH") throw error;
      }
    }
  }

  async #removeRole(slot: string, role: ProcessRole, options: RemoveOptions): Promise<void> {
    const record = this.#records.get(slot, role);
    if (record === undefined) return;
    if (record.bootId === bootId() && record.pidNamespace === pidNamespace()) {
      const deadline = Date.now() + options.stopSeconds * 1000;
      this.#signal(record, "SIGTERM");
      let waitMs = 5;
      while (this.#remaining(record).length > 0) {
        if (Date.now() >= deadline || options.signal?.aborted === true) this.#signal(record, "SIGKILL");
        await delay(waitMs, undefined, options.signal === undefined ? {} : { signal: options.signal }).catch(() =>
          delay(5),
        );
        waitMs = Math.min(100, waitMs * 2);
      }
    }
    await this.#records.remove(slot, role);
    this.#tell(slot);
  }

  /** Our own child's end is told by an event that may come a moment after the process is gone from /proc. */
  async #exitOf(record: ProcessRecord): Promise<Exit> {
    const own = this.#own.get(recordKey(record.slot, record.role));
    if (own?.pid === record.pid) return await own.ended;
    return await this.#noteExit(record, undefined, undefined);
  }

  async #noteExit(
    record: ProcessRecord,
    code: number | null | undefined,
    signal: NodeJS.Signals | null | undefined,
  ): Promise<Exit> {
    const at = new Date().toISOString();
    const hint = await lastLine(logFile(this.#options.stateDir, record.slot, record.role));
    const said = hint === "" ? "" : `: ${hint}`;
    let exit: Exit;
    if (signal !== null && signal !== undefined) {
      exit = { reason: "Signalled", signal, message: `ended by ${signal}${said}`, at };
    } else if (code !== null && code !== undefined) {
      exit = { reason: "Exited", code, message: `exited with code ${code}${said}`, at };
    } else {
      exit = { reason: "Unknown", message: `ended while no operator watched it, or after it was adopted${said}`, at };
    }
    const current = this.#records.get(record.slot, record.role);
    if (current?.pid === record.pid && current.startTime === record.startTime)
      await this.#records.put({ ...record, exit });
    return exit;
  }

  /** Adopted processes end without an event: looked at four times a second while there are any. */
  #followAdopted(): void {
    const adopted = (): ProcessRecord[] =>
      this.#records.all().filter(({ slot, role, exit }) => exit === undefined && !this.#own.has(recordKey(slot, role)));
    if (adopted().length === 0) {
      clearInterval(this.#adoptedTimer);
      this.#adoptedTimer = undefined;
      return;
    }
    this.#adoptedTimer ??= setInterval(() => {
      for (const record of adopted()) {
        if (this.#isAlive(record)) continue;
        void this.#noteExit(record, undefined, undefined).finally(() => this.#tell(record.slot));
      }
    }, adoptedPollMs);
    this.#adoptedTimer.unref();
  }

  async #user(): Promise<{ uid?: number; gid?: number }> {
    const { engineUser } = this.#options;
    if (engineUser === undefined || process.getuid?.() !== 0) return {};
    const line = (await readFile("/etc/passwd", "utf8"))
      .split("\n")
      .find((entry) => entry.startsWith(`${engineUser}:`));
    const [, , uid, gid] = line?.split(":") ?? [];
    if (uid === undefined || gid === undefined) throw new Error(`SVC_ENGINE_USER: there is no user ${engineUser}`);
    return { uid: Number(uid), gid: Number(gid) };
  }

  /** Engines append, so cutting is safe at any moment; the newer half goes to `.1` first. */
  async #capLogs(): Promise<void> {
    const limit = this.#options.logBytes ?? defaultLogBytes;
    for (const { slot, role } of this.#records.all()) {
      const path = logFile(this.#options.stateDir, slot, role);
      const size = await stat(path).then(
        (found) => found.size,
        () => 0,
      );
      if (size <= limit) continue;
      const from = await open(path, "r");
      try {
        const keep = Buffer.alloc(Math.min(size, Math.floor(limit / 2)));
        await from.read(keep, 0, keep.length, size - keep.length);
        const to = await open(`${path}.1`, "w", 0o640);
        try {
          await to.writeFile(keep);
        } finally {
          await to.close();
        }
        await truncate(path, 0);
      } finally {
        await from.close();
      }
    }
  }
}

function startFailure(error: unknown, workload: Workload): string {
  const [program = ""] = workload.command;
  const code = errorCode(error);
  if (code === "EACCES") return `${program} may not be executed`;
  if (code !== "ENOENT") return error instanceof Error ? error.message : String(error);
  const directory = workload.workingDir === undefined ? "" : `, or its working directory ${workload.workingDir}`;
  return `${program} was not found${directory}`;
}

/** The last thing an engine said, to stand beside its exit code. */
async function lastLine(path: string): Promise<string> {
  try {
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const buffer = Buffer.alloc(Math.min(size, 2048));
      await file.read(buffer, 0, buffer.length, size - buffer.length);
      const lines = buffer
        .toString()
        .split("\n")
        .map((line) => line.trim());
      return lines.findLast((line) => line !== "")?.slice(0, 300) ?? "";
    } finally {
      await file.close();
    }
  } catch {
    return "";
  }
}
