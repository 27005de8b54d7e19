import { setTimeout as delay } from "node:timers/promises";
import type { DrawsView } from "../../../api/management/views.ts";
import { EnginePool } from "../../../engine-client/client.ts";
import { parseForeign } from "../../../lib/json.ts";
import { availabilityOf, type Endpoint } from "../../slots/availability.ts";
import type { UnqueuedLease } from "../../slots/backend.ts";
import type { KnownSlot } from "../../routing/index.ts";
import { callEngine } from "./engine-http.ts";
import { loadWorkflows, type Workflows } from "./workflows.ts";

/** A reader of a slot's record does not wait for a busy engine. */
const listTimeoutMs = 1000;
const listLimitBytes = 1024 * 1024;

/** A ready engine of that slot until it is disposed; undefined: none is ready. */
export type AcquireEngine = (slot: string) => UnqueuedLease | undefined;

/**
 * The models that an image slot can draw with, and the last one: any curated model whose checkpoint the engine has, with
 * any model in the manifest (docs/images.md).
 */
export class Drawings {
  readonly #acquire: AcquireEngine;
  #workflows: Workflows | undefined;
  /** By slot. */
  readonly #last = new Map<string, { readonly process: string; readonly model: string }>();

  constructor(acquire: AcquireEngine) {
    this.#acquire = acquire;
  }

  /** Read when they are first needed. Throws when one of their files is invalid. */
  workflows(): Workflows {
    return (this.#workflows ??= loadWorkflows());
  }

  /** An engine of the slot has drawn with that model, and so has loaded it. */
  note(slot: string, { process }: Pick<Endpoint, "process">, model: string): void {
    this.#last.set(slot, { process, model });
  }

  /** Null for a slot of another kind. Never rejects: the files of an engine that does not answer are unknown. */
  async of(slot: KnownSlot): Promise<DrawsView | null> {
    if (slot.spec.engine !== "image") return null;
    using lease = this.#acquire(slot.name);
    const found = lease === undefined ? undefined : await checkpointsOf(lease.backend.endpoint);
    const models = [...this.workflows().values()].flatMap((workflow) =>
      "graph" in workflow
        ? [{ id: workflow.id, checkpoint: workflow.checkpoint, is_there: found?.includes(workflow.checkpoint) ?? null }]
        : [],
    );
    return { models, loaded: this.#loaded(slot) };
  }

  /** The last model, as long as the replica that has drawn with it is ready. */
  #loaded(slot: KnownSlot): string | null {
    const last = this.#last.get(slot.name);
    const now = availabilityOf(slot, "main", { operator: "absent", now: Date.now() });
    const endpoints = now.kind === "open" ? now.endpoints : [];
    return last !== undefined && endpoints.some(({ process }) => process === last.process) ? last.model : null;
  }
}

/** The files that ComfyUI lists; undefined without an answer in time. */
async function checkpointsOf(endpoint: Endpoint): Promise<readonly unknown[] | undefined> {
  const stop = new AbortController();
  const pool = new EnginePool(endpoint);
  const reading = callEngine(
    { transport: pool },
    {
      method: "GET",
      path: "/models/checkpoints",
      signal: stop.signal,
      timeoutMs: listTimeoutMs,
      limitBytes: listLimitBytes,
    },
  ).then(
    ({ status, body }) => (status === 200 ? parseForeign(body) : undefined),
    () => undefined,
  );
  try {
    const list = await Promise.race([
      reading,
      delay(listTimeoutMs, undefined, { signal: stop.signal }).catch(() => undefined),
    ]);
    return Array.isArray(list) ? list : undefined;
  } finally {
    stop.abort();
    pool.close();
  }
}
