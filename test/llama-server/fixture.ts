import assert from "node:assert/strict";
import { readlink } from "node:fs/promises";
import { startBerth, type RunningBerth, type Slot } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";

/** A whole Berth whose llama slots run the real llama-server; `make test-llama-server` builds it and names it here. */
export async function startWithLlamaServer(
  prepare: (dirs: { configDir: string; modelsDir: string }) => Promise<void>,
  env: NodeJS.ProcessEnv = {},
): Promise<RunningBerth> {
  return await startBerth({ env: { SVC_LLAMA_SERVER: llamaServer(), ...env }, prepare });
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
export function processes(slot: Slot): ReadonlyMap<string, EngineProcess> {
  return new Map(
    slot.processes?.map(({ role, pid, endpoint }) => [
      String(role),
      { role: String(role), pid: Number(pid), endpoint: String(endpoint) },
    ]),
  );
}

export function processOf(slot: Slot, role = "main"): EngineProcess {
  const found = processes(slot).get(role);
  assert.ok(found !== undefined, `the slot has no process ${role}: ${JSON.stringify(slot.processes)}`);
  return found;
}

/** The header by which the gateway is known to that engine. */
export async function keyOf(
  berth: RunningBerth,
  slot: string,
  role: "main" | "rerank" = "main",
): Promise<Record<string, string>> {
  const bearer = (await readPublished(berth.stateDir, slot))?.bearerList?.find((each) => each.role === role)?.bearer;
  assert.ok(bearer !== undefined, `the ${role} engine of ${slot} asks for no bearer`);
  return { authorization: `Bearer ${bearer}` };
}

export async function programOf(pid: number): Promise<string> {
  return await readlink(`/proc/${pid}/exe`);
}
