/** An amount of each resource of a budget: `slots`, `memory` in bytes, or a device in bytes. */
export type Amounts = ReadonlyMap<string, number>;

export function amountOf(amounts: Amounts, resource: string): number {
  return amounts.get(resource) ?? 0;
}

/** The sum of what they need of one resource. */
export function sumOf(all: Iterable<{ readonly needs: Amounts }>, resource: string): number {
  let sum = 0;
  for (const { needs } of all) sum += amountOf(needs, resource);
  return sum;
}

/** The resources of which they need more than there is. */
export function exceeded(all: readonly { readonly needs: Amounts }[], capacity: Amounts): readonly string[] {
  return [...capacity].flatMap(([resource, most]) => (sumOf(all, resource) > most ? [resource] : []));
}

export function fits(all: readonly { readonly needs: Amounts }[], capacity: Amounts): boolean {
  return exceeded(all, capacity).length === 0;
}

/** The larger amount of each resource. */
export function largest(one: Amounts, other: Amounts): Amounts {
  const resources = new Set([...one.keys(), ...other.keys()]);
  return new Map([...resources].map((id) => [id, Math.max(amountOf(one, id), amountOf(other, id))]));
}
