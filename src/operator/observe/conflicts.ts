import type { SlotConflicts } from "../plan/input.ts";
import { slotNameSchema } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";

interface Claim {
  readonly port: number | undefined;
  readonly aliases: readonly string[];
}

/**
 * The holders of fixed ports and aliases. The incumbent keeps them (DECISIONS 6): a later slot gets a condition, and
 * the name when the incumbent releases it. A slot's own name and a registry ref always beat an alias.
 */
export class ConflictIndex {
  readonly #claims = new Map<string, Claim>();
  readonly #holders = new Map<string, string>();
  #refs: ReadonlySet<string> = new Set();

  /** Sets the registry refs. Returns the slots whose aliases are affected. */
  setRefs(refs: ReadonlySet<string>): string[] {
    const before = this.#refs;
    this.#refs = refs;
    return [...this.#claims]
      .filter(([, claim]) => claim.aliases.some((alias) => before.has(alias) !== refs.has(alias)))
      .map(([slot]) => slot);
  }

  /**
   * Records the present claims of `slot`; undefined when it is gone. Returns the other slots whose conflicts changed.
   */
  update(slot: string, spec: SlotSpec | undefined): string[] {
    const affected = new Set<string>();
    const before = this.#claims.get(slot);
    const after = spec === undefined ? undefined : { port: spec.port, aliases: spec.aliases };
    if (after === undefined) this.#claims.delete(slot);
    else this.#claims.set(slot, after);
    // A new or removed slot takes its own name from the holder of the alias, or returns it.
    if ((before === undefined) !== (after === undefined)) {
      for (const [other, claim] of this.#claims)
        if (other !== slot && claim.aliases.includes(slot)) affected.add(other);
    }
    const wanted = new Set(after === undefined ? [] : namesOf(after));
    for (const [name, holder] of this.#holders) {
      if (holder !== slot || wanted.has(name)) continue;
      this.#holders.delete(name);
      // The next waiting slot by name; the other waiting ones see another holder.
      const waiting = [...this.#claims].filter(([, claim]) => namesOf(claim).includes(name)).map(([other]) => other);
      const [heir] = waiting.toSorted();
      if (heir !== undefined) this.#holders.set(name, heir);
      for (const other of waiting) affected.add(other);
    }
    for (const name of wanted) if (!this.#holders.has(name)) this.#holders.set(name, slot);
    affected.delete(slot);
    return [...affected];
  }

  /** Ports that other slots' manifests fix: automatic ports must avoid them. */
  portsFixedByOthers(slot: string): ReadonlySet<number> {
    const ports = [...this.#claims].flatMap(([other, { port }]) =>
      port === undefined || other === slot ? [] : [port],
    );
    return new Set(ports);
  }

  of(slot: string): SlotConflicts {
    const claim = this.#claims.get(slot);
    if (claim === undefined) return { port: undefined, aliases: [] };
    const portHolder = claim.port === undefined ? undefined : this.#holders.get(portName(claim.port));
    return {
      port:
        claim.port === undefined || portHolder === undefined || portHolder === slot
          ? undefined
          : { port: claim.port, holder: portHolder },
      aliases: claim.aliases.flatMap((alias) => {
        if (this.#claims.has(alias) && slotNameSchema.safeParse(alias).success) {
          return [{ alias, holder: `slot ${alias}` }];
        }
        if (this.#refs.has(alias)) return [{ alias, holder: `model ${alias}` }];
        const holder = this.#holders.get(aliasName(alias));
        return holder === undefined || holder === slot ? [] : [{ alias, holder: `slot ${holder}` }];
      }),
    };
  }
}

const portName = (port: number): string => `port ${port}`;
const aliasName = (alias: string): string => `alias ${alias}`;

function namesOf(claim: Claim): string[] {
  const aliases = claim.aliases.map(aliasName);
  return claim.port === undefined ? aliases : [portName(claim.port), ...aliases];
}
