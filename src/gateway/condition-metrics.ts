import { Gauge, type Registry } from "prom-client";
import type { Condition } from "../api/conditions.ts";
import type { Resource } from "./resource-book.ts";

type Label = "kind" | "name" | "type" | "status" | "reason";

interface Series {
  readonly value: number;
  readonly labels: Readonly<Record<Label, string>>;
}

const name = "berth_condition";
const help =
  "1 for each condition of a slot, model or upstream as it is now; Stalled, Degraded or NameConflict with status True is for a person to mend";

/**
 * One series for each condition that a resource has: a status or reason that it had before has none. Made when the page is
 * asked for, without prom-client's hash of every label, which a thousand slots would pay for at each scrape.
 */
class ConditionGauge extends Gauge<Label> {
  readonly #read: () => Iterable<Resource>;
  /** Of conditions that have not changed, what was made last. */
  readonly #made = new WeakMap<readonly Condition[], Series[]>();

  constructor(read: () => Iterable<Resource>) {
    super({ name, help, labelNames: ["kind", "name", "type", "status", "reason"], registers: [] });
    this.#read = read;
  }

  // Where prom-client (15) takes the values of a gauge from, for the page and for JSON.
  override async get(): ReturnType<Gauge<Label>["get"]> {
    const values = [...this.#read()].flatMap((resource) => this.#series(resource));
    return { ...(await super.get()), values };
  }

  #series({ kind, name: resource, conditions }: Resource): Series[] {
    let series = this.#made.get(conditions);
    if (series === undefined) {
      series = conditions.map(({ type, status, reason }) => ({
        value: 1,
        labels: { kind, name: resource, type, status, reason },
      }));
      this.#made.set(conditions, series);
    }
    return series;
  }
}

/** Exports the conditions of every resource that `read` gives when the page is asked for. */
export function exportConditions(registry: Registry, read: () => Iterable<Resource>): void {
  registry.registerMetric(new ConditionGauge(read));
}
