import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after } from "node:test";
import { processOf, startWithLlamaServer } from "../llama-server/fixture.ts";
import type { RunningBerth, Slot } from "../support/berth.ts";
import { ask, record } from "../support/openai.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { holders, mebibyte, readCard, type Card } from "./card.ts";
import { writeModel, type ModelName } from "./models.ts";

/** How long an engine may take to be ready; the largest file of the suite has 18 GB of holes. */
export const loadMs = 60_000;

/** Variables that a CUDA program finds its libraries and its GPU by. */
const inherited = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(?:LD_LIBRARY_PATH|CUDA_|NVIDIA_)/.test(name)),
);

/** Models that the tests of a file share, on the disk until its process ends. */
export class Models implements AsyncDisposable {
  readonly card: Card;
  readonly path: string;
  readonly #directory: AsyncDisposable;
  readonly #written = new Map<ModelName, Promise<void>>();

  private constructor(card: Card, directory: AsyncDisposable & { readonly path: string }) {
    this.card = card;
    this.path = directory.path;
    this.#directory = directory;
  }

  static async open(): Promise<Models> {
    return new Models(await readCard(), await tempDir());
  }

  async write(...names: readonly ModelName[]): Promise<void> {
    for (const name of names) {
      const writing = this.#written.get(name) ?? writeModel(this.path, this.card, name);
      this.#written.set(name, writing);
      await writing;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}

let shared: Promise<Models> | undefined;

/** The models of this file: a model is written when a slot first names it. */
export async function sharedModels(): Promise<Models> {
  return await (shared ??= Models.open());
}

after(async () => await (await shared)?.[Symbol.asyncDispose]());

/** A part of a slot's manifest: lines before its tables, and lines of [model]. */
export interface Manifest {
  readonly model: ModelName;
  readonly top?: string;
  readonly more?: string;
  readonly env?: string;
}

export function manifest({ model, top = "", more = "", env }: Manifest): string {
  const tables = env === undefined ? "" : `[env]\n${env}\n`;
  return `${top}\n[model]\ndefault = "${model}"\nprompt_cache_bytes = 0\n${more}\n${tables}`;
}

/** A whole Berth on the GPU, whose slots and groups are these. */
export async function startOnGpu(
  models: Models,
  slots: Readonly<Record<string, Manifest>>,
  groups: Readonly<Record<string, string>> = {},
): Promise<RunningBerth> {
  await models.write(...Object.values(slots).map(({ model }) => model));
  return await startWithLlamaServer(
    async ({ configDir }) => {
      await mkdir(join(configDir, "groups"), { recursive: true });
      for (const [name, text] of Object.entries(groups))
        await writeFile(join(configDir, "groups", `${name}.toml`), text);
      for (const [name, slot] of Object.entries(slots))
        await writeFile(join(configDir, "slots", `${name}.toml`), manifest(slot));
    },
    { SVC_MODELS_DIR: models.path, ...inherited },
  );
}

/** What commands of that Berth need to know, as `berth doctor` would in the shell of its user. */
export function shellOf(berth: RunningBerth): NodeJS.ProcessEnv {
  return { ...berth.env, SVC_URL: berth.url };
}

/** What the operator says of itself. */
export async function operatorOf(berth: RunningBerth): Promise<Record<string, unknown>> {
  return record(JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8")));
}

/** Waits until the slot is ready, and gives it; a failure says what its last error was. */
export async function ready(berth: RunningBerth, name: string): Promise<Slot> {
  return await settled(berth, name, ({ state, last_error: error, conditions }) => {
    if (state === "error") throw new Error(`${JSON.stringify(error ?? conditions)}\n${berth.log().slice(-2000)}`);
  });
}

/** Waits until a slot is ready that may be refused before. */
export async function settled(
  berth: RunningBerth,
  name: string,
  look: (slot: Record<string, unknown>) => void = () => undefined,
): Promise<Record<string, unknown>> {
  const isUp = async (): Promise<Record<string, unknown> | undefined> => {
    const slot = await berth.slot(name);
    look(slot);
    return ["ready", "idle", "serving"].includes(String(slot["state"])) ? slot : undefined;
  };
  return await until(`${name} is ready`, isUp, loadMs);
}

/** As `ready`, once its memory was measured. */
export async function measured(berth: RunningBerth, name: string): Promise<Slot> {
  await ready(berth, name);
  return await until(
    `the memory of ${name} is measured`,
    async () => {
      const slot = await berth.slot(name);
      return deviceBytes(slot) !== undefined && stagesOf(slot).has("measured") ? slot : undefined;
    },
    loadMs,
  );
}

/** The memory on the GPU by the slot's status; undefined: none was measured. */
export function deviceBytes({ memory }: Slot): number | undefined {
  const devices = memory?.devices ?? [];
  return devices.length === 0 ? undefined : devices.reduce((sum, { bytes }) => sum + Number(bytes), 0);
}

/** The figures of `fit`, by stage, in bytes. */
export function stagesOf({ fit }: Slot): ReadonlyMap<string, number> {
  return new Map(fit?.stages?.map(({ stage, need_bytes: bytes }) => [String(stage), Number(bytes)]));
}

export interface Condition {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

export function conditionsOf({ conditions }: Slot): readonly (Condition & { readonly type: string })[] {
  return (conditions ?? []).map(({ type, status, reason, message }) => ({
    type: String(type),
    status: String(status),
    reason: String(reason),
    message: String(message),
  }));
}

export function conditionOf(slot: Slot, type: string): Condition | undefined {
  return conditionsOf(slot).find((condition) => condition.type === type);
}

/** Waits until a condition of the slot has that reason. */
export async function reason(berth: RunningBerth, name: string, wanted: string): Promise<Condition> {
  let last: unknown;
  const look = async (): Promise<Condition | undefined> => {
    const slot = await berth.slot(name);
    last = slot["conditions"];
    return conditionsOf(slot).find((condition) => condition.reason === wanted);
  };
  return await until(`${name} has the reason ${wanted}`, look, loadMs).catch((error: unknown) => {
    throw new Error(`${name} has ${JSON.stringify(last)}, and not ${wanted}`, { cause: error });
  });
}

/** Waits until none of these processes holds memory of the GPU; gives the milliseconds. */
export async function released(...pids: readonly number[]): Promise<number> {
  const began = performance.now();
  await until(
    `${pids.join(", ")} hold no memory of the GPU`,
    async () => {
      const held = await holders();
      return !pids.some((pid) => held.has(pid));
    },
    30_000,
  );
  return performance.now() - began;
}

export async function pidOf(berth: RunningBerth, name: string): Promise<number> {
  return processOf(await berth.slot(name)).pid;
}

/** Asks that slot for a few words; resolves with the milliseconds that it took. */
export async function chat(berth: RunningBerth, model: string, tokens = 8, content = "hello"): Promise<number> {
  const began = performance.now();
  await ask(berth.url, "/v1/chat/completions", {
    model,
    messages: [{ role: "user", content }],
    max_tokens: tokens,
    ignore_eos: true,
  });
  return performance.now() - began;
}

/** Two figures of memory are the same, but for what changes from one moment to the next. */
export function assertNear(what: string, one: number | undefined, other: number | undefined): void {
  assert.ok(one !== undefined && other !== undefined, `${what}: ${one} and ${other}`);
  const most = Math.max(64 * mebibyte, other * 0.05);
  assert.ok(Math.abs(one - other) <= most, `${what}: ${one / mebibyte} MiB and ${other / mebibyte} MiB`);
}
