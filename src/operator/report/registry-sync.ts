import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import { diagnosticLine } from "../../api/diagnostic.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { ResourceStatus } from "../../api/resource-status.ts";
import { FailureLog } from "../../lib/failure-log.ts";
import { Serial } from "../../lib/serial.ts";
import type { ModelRegistry } from "../../models/registry.ts";
import type { DeduplicatedLog } from "./deduplicated-log.ts";
import type { Done } from "../queue.ts";
import { pullClaims, refOf, resourceStatuses, type PullClaims } from "./resource-conditions.ts";
import type { Dependencies } from "../dependencies.ts";

export interface RegistrySyncOptions {
  readonly dependencies: Dependencies;
  readonly registry: ModelRegistry;
  /** Shared with `dependencies.models`; only written here. */
  readonly models: { current: ReadonlyMap<string, ModelRecord> };
  /** The state of an earlier operator. */
  readonly resources: readonly ResourceStatus[];
  readonly log: Logger;
  readonly problemLog: DeduplicatedLog;
  /** A slot may be affected by the change. */
  readonly enqueue: (slot: string) => void;
}

/** Publishes models and providers with their conditions, whole at every change. */
export class RegistrySync {
  readonly #options: RegistrySyncOptions;
  #resources: readonly ResourceStatus[];
  #published = "";
  #pulls: PullClaims = new Map();
  readonly #failureLog: FailureLog;
  /** An earlier reading must not be published last. */
  readonly #turns = new Serial();

  constructor(options: RegistrySyncOptions) {
    this.#options = options;
    this.#resources = options.resources;
    this.#failureLog = new FailureLog({
      onFailing: (error) =>
        options.log.error({ err: error }, "models and upstreams cannot be published; trying on each second"),
      onEnd: () => options.log.info("models and upstreams are published again"),
    });
  }

  /** False: the published file was deleted, and another `sync` must write it. */
  isThere(): boolean {
    if (this.#published === "" || this.#options.dependencies.publisher.hasRegistry()) return true;
    this.#published = "";
    return false;
  }

  /** Whether conditions of models that are being fetched have changed since the last `sync`. */
  hasPullNews(): boolean {
    return !isDeepStrictEqual(this.#pulls, pullClaims(this.#options.dependencies.pulls.list()));
  }

  /** Reads the models, and publishes them. `requeueMs` where they could not be published. */
  sync(): Promise<Done> {
    return this.#turns.run(() => this.#sync());
  }

  async #sync(): Promise<Done> {
    const { dependencies, registry, models: known, problemLog, enqueue } = this.#options;
    const { source, conflicts } = dependencies;
    const models = source.list("Model");
    const declaredUpstreams = source.list("Upstream");
    const groups = source.list("SlotGroup");
    problemLog.report(
      "Registry",
      [...models, ...declaredUpstreams, ...groups].flatMap(({ diagnostics }) => diagnostics.map(diagnosticLine)),
    );
    const declared = models.flatMap(({ name, spec, since }) =>
      // An invalid ref is reported by its condition: published, it would make the whole file unreadable.
      spec === undefined || refOf({ name, spec }) === undefined ? [] : [{ name, spec, since }],
    );
    const records = await registry.records(declared);
    const before = known.current;
    const after = new Map(records.map((record) => [record.ref, record]));
    known.current = after;
    for (const slot of conflicts.setRefs(new Set(after.keys()))) enqueue(slot);
    const upstreams = declaredUpstreams.flatMap(({ name, spec }) => (spec === undefined ? [] : [{ name, spec }]));
    const pulled = this.#pulls;
    this.#pulls = pullClaims(dependencies.pulls.list());
    const turned = [...pulled.keys(), ...this.#pulls.keys()].filter((ref) => pulled.has(ref) !== this.#pulls.has(ref));
    this.#enqueueHolders(before, after, turned);
    const resources = resourceStatuses(
      { models, upstreams: declaredUpstreams, groups },
      {
        records: after,
        pulls: this.#pulls,
        problemsOf: (group) => dependencies.groups.statusOf(group)?.problems ?? [],
      },
      this.#resources,
      dependencies.clock.now(),
    );
    this.#resources = resources;
    const uids = [...models, ...declaredUpstreams, ...groups].map(({ uid }) => uid);
    return await this.#publish({ schema: 1, models: [...records], upstreams, resources }, uids);
  }

  /** `turned`: refs whose pull has begun or ended. */
  #enqueueHolders(
    before: ReadonlyMap<string, ModelRecord>,
    after: ReadonlyMap<string, ModelRecord>,
    turned: readonly string[],
  ): void {
    const { dependencies, enqueue } = this.#options;
    const changed = new Set(turned);
    for (const ref of new Set([...before.keys(), ...after.keys()])) {
      if (JSON.stringify(before.get(ref)) !== JSON.stringify(after.get(ref))) changed.add(ref);
    }
    if (changed.size === 0) return;
    for (const { name, spec } of dependencies.source.list("Slot")) {
      const held = dependencies.published.get(name)?.status.model.ref;
      const swapped = dependencies.requests.list(name).find(({ kind }) => kind === "swap-model")?.model;
      const { default: declared, rerank, projector, onRequest = [] } = spec?.model ?? {};
      const refs = [declared, rerank, projector, ...onRequest, held, swapped];
      if (refs.some((ref) => ref !== undefined && changed.has(ref))) enqueue(name);
    }
  }

  /** `uids`: of the resources; one that was made again under its name has no state yet. */
  async #publish(
    next: Parameters<Dependencies["publisher"]["writeRegistry"]>[0],
    uids: readonly (string | undefined)[],
  ): Promise<Done> {
    const json = JSON.stringify([next, uids]);
    if (json === this.#published) return {};
    try {
      await this.#options.dependencies.publisher.writeRegistry(next);
    } catch (error) {
      // Slots are kept all the same, at the start too.
      this.#failureLog.failed(error);
      return { requeueMs: 1000 };
    }
    this.#failureLog.succeeded();
    this.#published = json;
    return {};
  }
}
