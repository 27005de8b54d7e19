import type { Kind } from "../../api/names.ts";
import { abnormalConditions, type Condition } from "../../api/conditions.ts";
import { resourceKey } from "../../api/resource-status.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import { slotConditions } from "../slots/availability.ts";
import { upstreamConditions, type LostRef } from "../providers/conditions.ts";
import type { Upstreams, UpstreamView } from "../providers/upstreams.ts";

/** A resource of any kind with its conditions. */
export interface Resource {
  readonly kind: Kind;
  readonly name: string;
  /** The manifest of the resource; null: none, or unknown. */
  readonly file: string | null;
  readonly conditions: readonly Condition[];
}

export interface UnhealthyResource {
  readonly kind: Resource["kind"];
  readonly name: string;
  readonly condition: Condition;
}

/**
 * The conditions of every declared resource: those that the operator publishes, and for providers those that this
 * gateway knows in addition.
 */
export class ResourceIndex {
  readonly #index: () => ResolutionIndex;
  readonly #upstreams: Pick<Upstreams, "views" | "refs">;
  readonly #isOperatorLost: () => boolean;
  /** The last conditions of providers: the times of transitions follow from them. */
  #before: ReadonlyMap<string, readonly Condition[]> = new Map();

  constructor(options: {
    index: () => ResolutionIndex;
    upstreams: Pick<Upstreams, "views" | "refs">;
    isOperatorLost: () => boolean;
  }) {
    this.#index = options.index;
    this.#upstreams = options.upstreams;
    this.#isOperatorLost = options.isOperatorLost;
  }

  /** By name, also those whose manifest was never valid. */
  upstreams(now = new Date()): ReadonlyMap<string, Resource> {
    const { resources } = this.#index();
    const views = new Map(this.#upstreams.views().map((view) => [view.name, view]));
    const declared = [...resources.values()].flatMap(({ kind, name }) => (kind === "Upstream" ? [name] : []));
    const all = new Map<string, Resource>();
    for (const name of new Set([...views.keys(), ...declared])) {
      const published = resources.get(resourceKey({ kind: "Upstream", name }));
      const view = views.get(name);
      const before = this.#before.get(name) ?? [];
      const lost = view === undefined ? [] : this.#lostBy(view);
      const conditions = upstreamConditions({ view, published, lost, before, now });
      all.set(name, { kind: "Upstream", name, file: published?.file ?? null, conditions });
    }
    this.#before = new Map([...all].map(([name, { conditions }]) => [name, conditions]));
    return all;
  }

  /** Declared models and providers. */
  *others(): Generator<Resource, void, undefined> {
    for (const { kind, name, file, conditions } of this.#index().resources.values())
      if (kind !== "Upstream") yield { kind, name, file, conditions };
    yield* this.upstreams().values();
  }

  *all(): Generator<Resource, void, undefined> {
    const isLost = this.#isOperatorLost();
    for (const { name, status, published } of this.#index().slots.values()) {
      const conditions = slotConditions(status?.conditions ?? [], isLost);
      yield { kind: "Slot", name, file: published?.file ?? null, conditions };
    }
    yield* this.others();
  }

  /** The conditions that need a person. */
  *unhealthy(): Generator<UnhealthyResource, void, undefined> {
    for (const { kind, name, conditions } of this.all())
      for (const condition of abnormalConditions(conditions)) yield { kind, name, condition };
  }

  #lostBy({ name, spec }: UpstreamView): LostRef[] {
    const { slots, aliases } = this.#index();
    const refs = this.#upstreams.refs();
    return spec.models.flatMap(({ ref }) => {
      const slot = slots.get(ref) ?? aliases.get(ref);
      if (slot !== undefined) return [{ ref, holder: `slot ${slot.name}` }];
      const holder = refs.get(ref)?.upstream;
      return holder === undefined || holder === name ? [] : [{ ref, holder: `upstream ${holder}` }];
    });
  }
}
