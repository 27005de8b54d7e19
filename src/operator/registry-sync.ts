import type { Logger } from "pino";
import { diagnosticLine } from "../api/diagnostic.ts";
import type { ModelRecord } from "../api/model.ts";
import type { ResourceStatus } from "../api/resource-status.ts";
import { Outage } from "../lib/outage.ts";
import type { ModelRegistry } from "../models/registry.ts";
import type { Complaints } from "./complaints.ts";
import type { Done } from "./queue.ts";
import { refOf, resourceStatuses } from "./resource-conditions.ts";
import type { World } from "./world.ts";

export interface RegistrySyncOptions {
  readonly world: World;
  readonly registry: ModelRegistry;
  /** Shared with `world.models`; only written here. */
  readonly models: { current: ReadonlyMap<string, ModelRecord> };
  /** What an earlier operator has published. */
  readonly resources: readonly ResourceStatus[];
  readonly log: Logger;
  readonly complaints: Complaints;
  /** A slot may be another because of what changed. */
  readonly enqueue: (slot: string) => void;
}

/** Publishes models and providers, and how each that is declared is, whole when anything of it changes. */
export class RegistrySync {
  readonly #options: RegistrySyncOptions;
  #resources: readonly ResourceStatus[];
  #published = "";
  readonly #outage: Outage;

  constructor(options: RegistrySyncOptions) {
    this.#options = options;
    this.#resources = options.resources;
    this.#outage = new Outage({
      onFailing: (error) =>
        options.log.error({ err: error }, "models and upstreams cannot be published; trying on each second"),
      onEnd: () => options.log.info("models and upstreams are published again"),
    });
  }

  /** False: what was published has been deleted, and is to be written by another `sync`. */
  isThere(): boolean {
    if (this.#published === "" || this.#options.world.publisher.hasRegistry()) return true;
    this.#published = "";
    return false;
  }

  async sync(): Promise<Done> {
    const { world, registry, models: known, complaints, enqueue } = this.#options;
    const { source, conflicts } = world;
    const models = source.list("Model");
    const declaredUpstreams = source.list("Upstream");
    complaints.tell(
      "Registry",
      [...models, ...declaredUpstreams].flatMap(({ diagnostics }) => diagnostics.map(diagnosticLine)),
    );
    const declared = models.flatMap(({ name, spec, since }) =>
      // A ref that no request could name is told of by its condition: published, it would make the whole unreadable.
      spec === undefined || refOf({ name, spec }) === undefined ? [] : [{ name, spec, since }],
    );
    const records = await registry.records(declared);
    const before = known.current;
    const after = new Map(records.map((record) => [record.ref, record]));
    known.current = after;
    for (const slot of conflicts.setRefs(new Set(after.keys()))) enqueue(slot);
    this.#enqueueHolders(before, after);
    const upstreams = declaredUpstreams.flatMap(({ name, spec }) => (spec === undefined ? [] : [{ name, spec }]));
    const resources = resourceStatuses(
      { models, upstreams: declaredUpstreams },
      after,
      this.#resources,
      world.clock.now(),
    );
    this.#resources = resources;
    return await this.#publish({ schema: 1, models: [...records], upstreams, resources });
  }

  #enqueueHolders(before: ReadonlyMap<string, ModelRecord>, after: ReadonlyMap<string, ModelRecord>): void {
    const { world, enqueue } = this.#options;
    const changed = new Set<string>();
    for (const ref of new Set([...before.keys(), ...after.keys()])) {
      if (JSON.stringify(before.get(ref)) !== JSON.stringify(after.get(ref))) changed.add(ref);
    }
    if (changed.size === 0) return;
    for (const { name, spec } of world.source.list("Slot")) {
      const held = world.published.get(name)?.status.model.ref;
      const asked = world.requests.list(name).find(({ kind }) => kind === "swap-model")?.model;
      const refs = [spec?.model.default, spec?.model.rerank, spec?.model.projector, held, asked];
      if (refs.some((ref) => ref !== undefined && changed.has(ref))) enqueue(name);
    }
  }

  async #publish(next: Parameters<World["publisher"]["writeRegistry"]>[0]): Promise<Done> {
    const json = JSON.stringify(next);
    if (json === this.#published) return {};
    try {
      await this.#options.world.publisher.writeRegistry(next);
    } catch (error) {
      // Slots are kept all the same, at the start too.
      this.#outage.failed(error);
      return { requeueMs: 1000 };
    }
    this.#outage.succeeded();
    this.#published = json;
    return {};
  }
}
