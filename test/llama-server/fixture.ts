import assert from "node:assert/strict";
import { readlink } from "node:fs/promises";
import { isRecord } from "../../src/cli/output.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";

/** A whole Berth whose llama slots run the real llama-server; `make test-llama-server` builds it and names it here. */
export async function startWithLlamaServer(
  prepare: (dirs: { configDir: string; modelsDir: string }) => Promise<void>,
): Promise<RunningBerth> {
  return await startBerth({ env: { SVC_LLAMA_SERVER: llamaServer() }, prepare });
}

export function llamaServer(): string {
  const path = process.env["BERTH_TEST_LLAMA_SERVER"];
  assert.ok(path !== undefined, "these tests need the real llama-server: run `make test-llama-server`");
  return path;
}

export interface EngineProcess {
  readonly role: string;
  readonly pid: number;
  readonly endpoint: string;
}

/** The slot's processes, by role. */
export function processes(slot: Record<string, unknown>): ReadonlyMap<string, EngineProcess> {
  const found = Array.isArray(slot["processes"]) ? slot["processes"].filter(isRecord) : [];
  return new Map(
    found.map((process) => {
      const role = String(process["role"]);
      return [role, { role, pid: Number(process["pid"]), endpoint: String(process["endpoint"]) }];
    }),
  );
}

export function processOf(slot: Record<string, unknown>, role = "main"): EngineProcess {
  const found = processes(slot).get(role);
  assert.ok(found !== undefined, `the slot has no process ${role}: ${JSON.stringify(slot["processes"])}`);
  return found;
}

export async function programOf(pid: number): Promise<string> {
  return await readlink(`/proc/${pid}/exe`);
}

export async function post(base: string, path: string, body: unknown): Promise<Response> {
  return await fetch(new URL(path, base), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Posts, asserts 200 and gives the body as an object. */
export async function ask(base: string, path: string, body: unknown): Promise<Record<string, unknown>> {
  const response = await post(base, path, body);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const parsed: unknown = JSON.parse(text);
  assert.ok(isRecord(parsed));
  return parsed;
}

/** The JSON of every `data:` event, and whether `[DONE]` came last. */
export async function events(response: Response): Promise<{ chunks: Record<string, unknown>[]; isDone: boolean }> {
  const data = (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice("data: ".length));
  const chunks = data.filter((text) => text !== "[DONE]").map((text): unknown => JSON.parse(text));
  assert.ok(chunks.every(isRecord));
  return { chunks, isDone: data.at(-1) === "[DONE]" };
}

/** The first choice of a chat or completion, whole or one chunk of a stream. */
export function choice(body: Record<string, unknown>): Record<string, unknown> {
  const [first]: unknown[] = Array.isArray(body["choices"]) ? body["choices"] : [];
  assert.ok(isRecord(first), JSON.stringify(body));
  return first;
}

export function record(value: unknown): Record<string, unknown> {
  assert.ok(isRecord(value), JSON.stringify(value));
  return value;
}

export function list(value: unknown): Record<string, unknown>[] {
  assert.ok(Array.isArray(value) && value.every(isRecord), JSON.stringify(value));
  return value;
}
