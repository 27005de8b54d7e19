import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { recordSchema, type ProcessRecord } from "../../../src/api/process-record.ts";
import type { Observed, Workload } from "../../../src/api/workload.ts";
import { openProcessRuntime, type ProcessRuntimeOptions } from "../../../src/runtimes/process/process.ts";
import { tailLogs, type LogLine, type TailOptions } from "../../../src/runtimes/logs/logs.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { until } from "../../support/until.ts";
import type { Site } from "../conformance.ts";

const engine = join(import.meta.dirname, "../../doubles/engine.ts");

/** An installation in a directory of its own. What it has started is ended with it. */
export class ProcessSite implements Site {
  readonly instance = `test-${randomUUID()}`;
  readonly stateDir = mkdtempSync(join(tmpdir(), "berth-runtime-"));
  readonly recordFile = join(this.stateDir, "processes", "primary.main.json");
  readonly logFile = join(this.stateDir, "logs", "primary.main.log");
  readonly #neighbour = `test-${randomUUID()}`;
  readonly #options: Partial<ProcessRuntimeOptions>;

  constructor(options: Partial<ProcessRuntimeOptions> = {}) {
    this.#options = options;
  }

  async open(options: Partial<ProcessRuntimeOptions> = {}): Promise<Runtime> {
    return await openProcessRuntime({
      stateDir: this.stateDir,
      instance: this.instance,
      ...this.#options,
      ...options,
    });
  }

  readonly hasHostPorts = true;

  logs(slot: string, options: TailOptions): AsyncIterable<LogLine> {
    return tailLogs(this.stateDir, slot, options);
  }

  async openNeighbour(): Promise<Runtime> {
    return await openProcessRuntime({ stateDir: join(this.stateDir, "neighbour"), instance: this.#neighbour });
  }

  workload(port: number, flags: readonly string[] = []): Workload {
    return this.command([process.execPath, engine, ...flags], port);
  }

  command(command: readonly string[], port: number): Workload {
    return {
      slot: "primary",
      role: "main",
      ordinal: 0,
      hash: "hash-1",
      runtime: "process",
      command,
      env: { HOST: "127.0.0.1", PORT: String(port), SLOT: "primary", MODEL: "double" },
      workingDir: undefined,
      port,
      stopSeconds: 30,
    };
  }

  missingProgram(port: number): Workload {
    return this.command([join(this.stateDir, "no-such-engine")], port);
  }

  /** An engine that does nothing, and starts soon. */
  sleep(port = 8081): Workload {
    return this.command(["sleep", "3600"], port);
  }

  /** Starts an engine whose operator then goes. */
  async startedAndLeft(workload: Workload, { population = 1, listens = true } = {}): Promise<Observed> {
    await using runtime = await this.open();
    await runtime.ensure(workload);
    await until("it runs", async () => !listens || (await only(runtime)).isListening);
    await until("all carry their label", async () => (await this.population()) === population);
    return await only(runtime);
  }

  async readRecord(): Promise<ProcessRecord> {
    return recordSchema.parse(JSON.parse(await readFile(this.recordFile, "utf8")));
  }

  async kill({ id }: Observed, signal: NodeJS.Signals): Promise<void> {
    if ("pid" in id) process.kill(id.pid, signal);
  }

  async population(): Promise<number> {
    return carriers(this.instance).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await until("nothing of the test runs", () => {
      const left = [...carriers(this.instance), ...carriers(this.#neighbour)];
      for (const pid of left) process.kill(pid, "SIGKILL");
      return left.length === 0;
    });
    await rm(this.stateDir, { recursive: true, force: true });
  }
}

export async function only(runtime: Runtime): Promise<Observed> {
  const [observed, ...more] = await runtime.observe("primary");
  assert.ok(observed !== undefined && more.length === 0);
  return observed;
}

export async function exitOf(runtime: Runtime): Promise<NonNullable<Observed["exit"]>> {
  return await until("it has exited", async () => (await only(runtime)).exit);
}

export function pidOf({ id }: Observed): number {
  assert.ok("pid" in id);
  return id.pid;
}

export function startTimeIn(pid: number): string {
  return statOf(pid).split(" ")[19] ?? "";
}

/** What the kernel says of a process behind its name. */
export function statOf(pid: number): string {
  return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1) ?? "";
}

/** Live pids whose environment names the instance: the test's own look, by other means than the runtime's. */
export function carriers(instance: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        // A zombie has an empty environment.
        return pid > 0 && readFileSync(`/proc/${pid}/environ`, "latin1").includes(`BERTH_INSTANCE=${instance}\0`);
      } catch {
        return false;
      }
    });
}
