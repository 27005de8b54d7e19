import { join } from "node:path";
import { pino } from "pino";
import type { Condition } from "../../src/api/conditions.ts";
import { loadConfig } from "../../src/api/config.ts";
import { builtinSlots } from "../../src/api/names.ts";
import { modelRecordSchema, type ModelRecord } from "../../src/api/model.ts";
import { slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";
import type { SlotState } from "../../src/api/states.ts";
import {
  emptyStatus,
  type Demand,
  type PublishedOperator,
  type PublishedRegistry,
  type PublishedSlot,
  type SlotStatus,
} from "../../src/api/status.ts";
import { runGateway, type GatewayOptions, type RunningGateway } from "../../src/gateway/main.ts";
import { bootId } from "../../src/lib/boot-id.ts";
import { openDemandStore } from "../../src/store/state/demand.ts";
import type { OperatorReport } from "../../src/store/store.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { tempDir } from "./temp-dir.ts";
import { until } from "./until.ts";
import { later } from "./later.ts";

/** The fields of a slot that a test publishes in the operator's place. */
export interface SlotSketch {
  readonly state?: SlotState;
  /** Port of its engine; absent: it has none. */
  readonly port?: number;
  /** Port of its second process. */
  readonly rerankPort?: number;
  readonly spec?: SlotSpecInput;
  /** Further fields of the status. */
  readonly status?: Partial<SlotStatus>;
  readonly bearerList?: PublishedSlot["bearerList"];
}

export interface TestGateway extends AsyncDisposable {
  readonly url: string;
  readonly stateDir: string;
  readonly running: RunningGateway;
  readonly log: () => string;
  /** Publishes and waits until the gateway has seen it. */
  publish(name: string, sketch: SlotSketch): Promise<void>;
  publishRegistry(registry: Partial<PublishedRegistry>): Promise<void>;
  /** The operator's record. Its heart goes on beating, unless the sketch says when it beat. */
  publishOperator(sketch?: Partial<PublishedOperator>): Promise<void>;
  /** May be awaited later. */
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
  /** The demand for a slot that this gateway publishes. */
  demand(slot: string): Demand["slots"][string] | undefined;
  /** The value of one line of the metric page; undefined when there is none. */
  metric(line: string): Promise<number | undefined>;
}

/** A gateway in this process, with a state directory of its own and no operator: the test publishes. */
export async function startGateway(
  options: {
    slots?: Readonly<Record<string, SlotSketch>>;
    registry?: Partial<PublishedRegistry>;
    /** The record of an operator that has just run; `none`: none has. */
    operator?: Partial<PublishedOperator> | "none";
    env?: Readonly<Record<string, string>>;
    gateway?: Partial<GatewayOptions>;
    /** Called just before the gateway starts. */
    onStart?: (stateDir: string) => void;
  } = {},
): Promise<TestGateway> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const stateDir = directory.path;
  const publisher = await openPublisher(stateDir);
  const revisions = new Map<string, number>();
  const write = async (name: string, sketch: SlotSketch): Promise<number> => {
    const revision = (revisions.get(name) ?? 0) + 1;
    revisions.set(name, revision);
    await publisher.writeSlot(publishedSlot(name, sketch, revision));
    return revision;
  };
  // An operator that has reconciled every slot has published the built-in slots, configured or not.
  const builtins = options.operator === undefined ? builtinSlots.map((name) => [name, unconfigured] as const) : [];
  const slots = { ...Object.fromEntries(builtins), ...options.slots };
  for (const [name, sketch] of Object.entries(slots)) await write(name, sketch);
  await publisher.writeRegistry({ schema: 1, models: [], upstreams: [], resources: [], ...options.registry });
  let operator: (OperatorReport & { readonly heartbeat?: string }) | undefined;
  const publishOperator = async (sketch: Partial<PublishedOperator> = {}): Promise<void> => {
    operator = { ...operatorNow(), ...sketch };
    await publisher.writeOperator(operator);
  };
  const beats = setInterval(() => {
    if (operator !== undefined && operator.heartbeat === undefined)
      void publisher.writeOperator(operator).catch(() => undefined);
  }, 500);
  stack.defer(() => clearInterval(beats));
  if (options.operator !== "none") await publishOperator(options.operator);
  const { config, problems } = loadConfig(
    {
      SVC_STATE_DIR: stateDir,
      SVC_CONFIG_DIR: join(stateDir, "config"),
      SVC_HOST: "127.0.0.1",
      SVC_PORT: "0",
      ...options.env,
    },
    {},
    { isRoot: false, home: stateDir, xdgConfigHome: undefined, xdgStateHome: undefined },
  );
  if (config === undefined) throw new Error(JSON.stringify(problems));
  let text = "";
  const put = (line: string): void => void (text += line);
  const log = pino({ level: "info" }, { write: put });
  options.onStart?.(stateDir);
  const running = await runGateway(config, {
    log,
    accessLog: pino({ level: "info", base: { component: "gateway" } }, { write: put }),
    version: "0.0.0-test",
    isStrict: true,
    ...options.gateway,
  });
  stack.defer(() => running.close({ drainSeconds: 0 }));
  const demands = stack.use(await openDemandStore(stateDir));
  const demand = (slot: string): Demand["slots"][string] | undefined =>
    demands.list().find(({ pid }) => pid === process.pid)?.slots[slot];
  const owned = stack.move();
  return {
    url: running.url,
    stateDir,
    running,
    log: () => text,
    demand,
    async publish(name, sketch) {
      const revision = await write(name, sketch);
      await until(`the gateway has seen ${name}`, () => (running.seenRevision(name) ?? 0) >= revision);
    },
    async publishRegistry(registry) {
      await publisher.writeRegistry({ schema: 1, models: [], upstreams: [], resources: [], ...registry });
    },
    publishOperator,
    post: (path, body, init = {}) =>
      later(
        fetch(new URL(path, running.url), {
          method: "POST",
          body: typeof body === "string" ? body : JSON.stringify(body),
          headers: { "content-type": "application/json" },
          ...init,
        }),
      ),
    async metric(line) {
      const page = await (await fetch(`${running.url}/metrics`)).text();
      const found = page.split("\n").find((each) => each.startsWith(`${line} `));
      return found === undefined ? undefined : Number(found.slice(line.length + 1));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const unconfigured: SlotSketch = {
  spec: { enabled: false, model: {} },
  status: { model: { origin: "spec" }, capabilities: [] },
};

function operatorNow(): OperatorReport {
  const now = new Date().toISOString();
  return {
    schema: 1,
    instance: "test",
    pid: 1,
    bootId: bootId(),
    startedAt: now,
    isPaused: false,
    isSettled: true,
    slotCount: 0,
    configDir: "/config",
    problems: [],
  };
}

/** A slot as an operator publishes it. */
export function publishedSlot(name: string, sketch: SlotSketch, revision: number): PublishedSlot {
  const { port, rerankPort, state = port === undefined ? "offline" : "ready", spec = {}, status = {} } = sketch;
  const now = new Date().toISOString();
  const process = (role: "main" | "rerank", at: number): SlotStatus["processes"][number] => ({
    role,
    ordinal: 0,
    host: "127.0.0.1",
    port: at,
    endpoint: `http://127.0.0.1:${at}`,
    pid: 1,
    isReady: true,
  });
  return {
    schema: 1,
    name,
    revision,
    generation: 1,
    specHash: "test",
    labels: {},
    spec: slotSpecSchema.parse({ engine: "custom", model: { default: "test-model" }, ...spec }),
    status: {
      ...emptyStatus,
      state,
      conditions: conditionsFor(state, now),
      observedGeneration: 1,
      model: { ref: "test-model", origin: "spec", served: "engine-model" },
      capabilities: ["chat", "completions", "embeddings", "rerank"],
      processes: [
        ...(port === undefined ? [] : [process("main", port)]),
        ...(rerankPort === undefined ? [] : [process("rerank", rerankPort)]),
      ],
      ...status,
    },
    plan: { reason: "UpToDate", message: "nothing to do", steps: [] },
    ...(sketch.bearerList === undefined ? {} : { bearerList: sketch.bearerList }),
  };
}

/** As the operator would have them, as far as the gateway looks. */
function conditionsFor(state: SlotState, now: string): Condition[] {
  const isAvailable = state === "ready" || state === "serving" || state === "idle";
  const reasons: Partial<Record<SlotState, string>> = {
    offline: "ScaledToZero",
    pulling: "Pulling",
    starting: "Starting",
    warming: "Warming",
    unloading: "Unloading",
    error: "Exited",
  };
  const reason = reasons[state] ?? "Loaded";
  return [
    {
      type: "Available",
      status: isAvailable ? "True" : "False",
      reason,
      message: state,
      observedGeneration: 1,
      lastTransitionTime: now,
    },
  ];
}

/** A model as the registry holds it, for resolution. */
export function modelRecord(ref: string): ModelRecord {
  return modelRecordSchema.parse({
    ref,
    origin: "file",
    source: `file:///${ref}.gguf`,
    state: "available",
    created: 1,
  });
}
