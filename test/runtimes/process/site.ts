import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
