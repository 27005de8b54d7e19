import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "../../support/temp-dir.ts";
import { freePorts } from "../../support/ports.ts";
import { readPublished } from "../../support/published.ts";
import { until } from "../../support/until.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { startProgram, type Started } from "./process.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const engineProgram = join(root, "test/bench/programs/engine.ts");

export interface PartOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** The port of a further gateway beside the first. */
  readonly port?: number;
}

/** A directory of configuration and state, and the two processes of Berth over it, started as the bench needs them. */
export interface Site extends AsyncDisposable {
  readonly directory: string;
  readonly stateDir: string;
  readonly gatewayPort: number;
  readonly operatorPort: number;
  /** For whatever else a bar runs: nginx, further gateways. This port and the six after it are free. */
  readonly sparePort: number;
  /** The first port that the operator gives to an engine. */
  readonly enginePort: number;
  operator(options?: PartOptions): Promise<Started>;
  gateway(options?: PartOptions): Promise<Started>;
  /** Operator and gateway under one parent. */
  up(): Promise<Started>;
  /** Writes a manifest: a custom slot over that command. */
  slot(name: string, spec: Readonly<Record<string, unknown>>): Promise<void>;
  published(name: string): Promise<PublishedSlot | undefined>;
  /** Waits until a slot is published in that state. */
  state(name: string, state: string, timeoutMs?: number): Promise<PublishedSlot>;
}

/** The command line of the double that answers at once. */
export function engineCommand(...flags: readonly string[]): string[] {
  return [process.execPath, "--disable-warning=ExperimentalWarning", engineProgram, ...flags];
}

export interface SiteOptions {
  readonly slotPorts?: number;
  /** The clone whose Berth runs here; this one unless given. */
  readonly root?: string;
}

/** `BENCH_CPU_PROF=DIR`: both parts leave a CPU profile there when they end. */
function profiling(part: string): string {
  const directory = process.env["BENCH_CPU_PROF"];
  if (directory === undefined) return "";
  return `--cpu-prof --cpu-prof-dir=${directory} --cpu-prof-name=${part}-${Date.now()}.cpuprofile`;
}

export async function openSite(options: SiteOptions = {}): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const command = join(options.root ?? root, "bin/berth");
  const { path: directory } = stack.use(await tempDir());
  const slotsDir = join(directory, "config", "slots");
  const stateDir = join(directory, "state");
  await mkdir(slotsDir, { recursive: true });
  const slotPorts = options.slotPorts ?? 20;
  const { first } = await freePorts(slotPorts + 10);
  const operatorPort = first + 1;
  const base: NodeJS.ProcessEnv = {
    PATH: process.env["PATH"],
    HOME: directory,
    SVC_CONFIG_DIR: join(directory, "config"),
    SVC_STATE_DIR: stateDir,
    SVC_MODELS_DIR: join(directory, "models"),
    SVC_RUNTIME: "process",
    SVC_HOST: "127.0.0.1",
    SVC_PORT: String(first),
    SVC_OPERATOR_PORT: String(operatorPort),
    SVC_SLOT_PORTS: `${first + 10}-${first + 9 + slotPorts}`,
    SVC_LLAMA_SERVER: "none",
    SVC_LOG_LEVEL: "warn",
  };
  const part = async (name: string, args: readonly string[], port: number, path: string, more: PartOptions) => {
    const started = startProgram([command, ...args], {
      env: { ...base, NODE_OPTIONS: profiling(name), ...more.env },
      logFile: join(directory, `${name}.log`),
    });
    await until(
      `${name} is ready`,
      async () => started.hasEnded() || (await fetch(`http://127.0.0.1:${port}${path}`)).ok,
      60_000,
    );
    if (started.hasEnded()) throw new Error(`${name} ended: ${(await readFile(started.logFile, "utf8")).slice(-500)}`);
    return started;
  };
  const published = (name: string): Promise<PublishedSlot | undefined> =>
    readPublished(stateDir, name).catch(() => undefined);
  const running: Started[] = [];
  // Gateway last in, first out: it goes before the operator, and that takes the engines with it.
  stack.defer(async () => {
    for (const started of running.toReversed()) await started.stop();
  });
  const owned = stack.move();
  return {
    directory,
    stateDir,
    gatewayPort: first,
    operatorPort,
    sparePort: first + 2,
    enginePort: first + 10,
    operator: async (more = {}) => {
      const started = await part("operator", ["operator", "--stop-engines"], operatorPort, "/readyz", more);
      running.push(started);
      return started;
    },
    gateway: async (more = {}) => {
      const { port = first, env } = more;
      const name = port === first ? "gateway" : `gateway-${port}`;
      const started = await part(name, ["serve"], port, "/readyz", { env: { ...env, SVC_PORT: String(port) } });
      running.push(started);
      return started;
    },
    up: async () => {
      const started = await part("up", ["up"], first, "/readyz", {});
      running.push(started);
      return started;
    },
    slot: (name, spec) =>
      writeFile(join(slotsDir, `${name}.yaml`), `${JSON.stringify({ engine: "custom", ...spec }, null, 2)}\n`),
    published,
    state: (name, state, timeoutMs = 30_000) =>
      until(
        `${name} is ${state}`,
        async () => {
          const found = await published(name);
          return found?.status.state === state ? found : undefined;
        },
        timeoutMs,
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
