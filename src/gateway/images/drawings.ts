import { setTimeout as delay } from "node:timers/promises";
import type { DrawsView } from "../../api/management/views.ts";
import { parseJson } from "../../lib/json.ts";
import { availabilityOf, type Endpoint } from "../admission/availability.ts";
import type { KnownSlot } from "../index.ts";
import { callEngine } from "./engine-http.ts";
import { loadWorkflows, type Workflows } from "./workflows.ts";

/** Whoever reads a slot's record does not wait for an engine that is busy. */
const patienceMs = 1000;
const listLimitBytes = 1024 * 1024;

/**
 * What the image slot can draw with, and what it drew with last: any curated model whose checkpoint the engine has, whatever the
 * manifest names (docs/images.md).
 */
export class Drawings {
  #workflows: Workflows | undefined;
  #last: { readonly process: string; readonly model: string } | undefined;

  /** Read when they are first needed. Throws when a file of them is wrong. */
  workflows(): Workflows {
    return (this.#workflows ??= loadWorkflows());
  }

  /** The engine has drawn with that model: it is the one that it holds now. */
  note({ process }: Pick<Endpoint, "process">, model: string): void {
    this.#last = { process, model };
  }

  /** Null of a slot that is no image slot. Never rejects: an engine that does not tell what it has leaves that open. */
  async of(slot: KnownSlot): Promise<DrawsView | null> {
    if (slot.spec.engine !== "image") return null;
    const now = availabilityOf(slot, "main", { operator: undefined, bootId: "", now: Date.now() });
    const endpoint = now.kind === "open" ? now.endpoint : undefined;
    const found = endpoint === undefined ? undefined : await checkpointsOf(endpoint);
    const models = [...this.workflows().values()].flatMap((workflow) =>
      "graph" in workflow
        ? [{ id: workflow.id, checkpoint: workflow.checkpoint, is_there: found?.includes(workflow.checkpoint) ?? null }]
        : [],
    );
    return { models, loaded: this.#last?.process === endpoint?.process ? (this.#last?.model ?? null) : null };
  }
}

/** The files that ComfyUI finds; undefined where it does not say in time. */
async function checkpointsOf(endpoint: Endpoint): Promise<readonly unknown[] | undefined> {
  const stop = new AbortController();
  const asked = callEngine(endpoint, {
    method: "GET",
    path: "/models/checkpoints",
    signal: stop.signal,
    timeoutMs: patienceMs,
    limitBytes: listLimitBytes,
  }).then(
    ({ status, body }) => (status === 200 ? parseJson(body) : undefined),
    () => undefined,
  );
  try {
    const list = await Promise.race([
      asked,
      delay(patienceMs, undefined, { signal: stop.signal }).catch(() => undefined),
    ]);
    return Array.isArray(list) ? list : undefined;
  } finally {
    stop.abort();
  }
}
