import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Dockerode from "dockerode";
import { until } from "../support/until.ts";
import { removed } from "./patient.ts";

/** A Docker daemon of one test's own, to be stopped, killed and started again. */
export interface TestDaemon extends AsyncDisposable {
  readonly socketPath: string;
  readonly api: Dockerode;
  /** Resolves once it answers. */
  start(): Promise<void>;
  /** Resolves once it has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** It answers nobody any more, until `wake`. */
  freeze(): void;
  wake(): void;
}

/**
 * Makes one; `start` runs it. `dataRoot` may be a small file system. The daemon is root's, and lives in the namespaces
 * of the tests.
 */
export async function testDaemon(
  options: {
    isLiveRestore?: boolean;
    dataRoot?: string;
    /** How often a layer whose connection breaks is gone on with, which takes 5 s for the first time. */
    downloadAttempts?: number;
  } = {},
): Promise<TestDaemon> {
  const directory = await mkdtemp(join(tmpdir(), "berth-daemon-"));
  const socketPath = join(directory, "docker.sock");
  const api = new Dockerode({ socketPath });
  const log = openSync(join(directory, "log"), "a");
  let child: ChildProcess | undefined;
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<void> => {
    const running = child;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    running.kill(signal);
    await ended;
    child = undefined;
  };
  const start = async (): Promise<void> => {
    await mkdir(join(directory, "exec"), { recursive: true });
    const args = ["--data-root", options.dataRoot ?? join(directory, "data"), "--exec-root", join(directory, "exec")];
    args.push("--pidfile", join(directory, "pid"), "--host", `unix://${socketPath}`, "--bridge", "none");
    // Two daemons in one network: each would throw the other's rules away at its start.
    args.push("--iptables=false");
    // Not the addresses that the daemon beside it hands out at the same moment.
    args.push("--default-address-pool", "base=10.198.0.0/16,size=24");
    if (options.isLiveRestore === true) args.push("--live-restore");
    if (options.downloadAttempts !== undefined) args.push(`--max-download-attempts=${options.downloadAttempts}`);
    const started = spawn("dockerd", args, { stdio: ["ignore", log, log] });
    child = started;
    const isUp = await until("the daemon answers, or has ended", async () => {
      if (started.exitCode !== null || started.signalCode !== null) return "no";
      return (await api.ping()) !== undefined && "yes";
    }).catch((error: unknown) => error);
    if (isUp === "yes") return;
    throw new Error(`dockerd: ${(await readFile(join(directory, "log"), "utf8")).slice(-1000)}`, { cause: isUp });
  };
  return {
    socketPath,
    api,
    start,
    stop,
    freeze: () => void child?.kill("SIGSTOP"),
    wake: () => void child?.kill("SIGCONT"),
    async [Symbol.asyncDispose]() {
      // A test may have failed while it was frozen, and who was told to live on ends with the test.
      child?.kill("SIGCONT");
      if (child === undefined) await start();
      for (const { Id: id } of await api.listContainers({ all: true })) await removed(api.getContainer(id));
      await stop();
      // With live-restore the daemon leaves its root mounted.
      spawnSync("umount", ["-l", join(directory, "data")], { stdio: "ignore" });
      closeSync(log);
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}
