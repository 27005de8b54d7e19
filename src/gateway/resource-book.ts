import { troublesIn, type Condition } from "../api/conditions.ts";
import { resourceKey } from "../api/resource-status.ts";
import type { ResolutionIndex } from "./index.ts";
import { slotConditions } from "./slot-conditions.ts";
import { upstreamConditions, type LostRef } from "./upstreams/conditions.ts";
import type { Upstreams, UpstreamView } from "./upstreams/upstreams.ts";

/** A resource of any kind, and how it is. */
export interface Resource {
  readonly kind: "Slot" | "Model" | "Upstream";
  readonly name: string;
  /** Where a person declares it; null: nowhere, or that is not known. */
  readonly file: string | null;
  readonly conditions: readonly Condition[];
}

export interface Trouble {
  readonly kind: Resource["kind"];
  readonly name: string;
  readonly condition: Condition;
}

/** How every declared resource is: what the operator publishes, and for providers what this gateway knows beside. */
export class ResourceBook {
  readonly #index: () => ResolutionIndex;
  readonly #upstreams: Pick<Upstreams, "views" | "refs">;
  readonly #isOperatorLost: () => boolean;
  /** What was said last of providers: when a condition moved is known by it. */
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

  /** By name; those whose manifest was never valid are among them. */
  upstreams(now = new Date()): ReadonlyMap<string, Resource> {
    const { resources } = this.#index();
    const views = new Map(this.#upstreams.views().map((view) => [view.name, view]));
    const declared = [...resources.values()].flatMap(({ kind, name }) => (kind === "Upstream" ? [name] : []));
    const all = new Map<string, Resource>();
    for (const name of new Set([...views.keys(), ...declared])) {
      const told = resources.get(resourceKey({ kind: "Upstream", name }));
      const view = views.get(name);
      const before = this.#before.get(name) ?? [];
      const lost = view === undefined ? [] : this.#lostBy(view);
      const conditions = upstreamConditions({ view, told, lost, before, now });
      all.set(name, { kind: "Upstream", name, file: told?.file ?? null, conditions });
    }
    this.#before = new Map([...all].map(([name, { conditions }]) => [name, conditions]));
    return all;
  }

  /** Models and providers that are declared. */
  *others(): Generator<Resource, void, undefined> {
    for (const { kind, name, file, conditions } of this.#index().resources.values())
      if (kind === "Model") yield { kind, name, file, conditions };
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

  /** What a person should look at. */
  *troubles(): Generator<Trouble, void, undefined> {
    for (const { kind, name, conditions } of this.all())
      for (const condition of troublesIn(conditions)) yield { kind, name, condition };
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
