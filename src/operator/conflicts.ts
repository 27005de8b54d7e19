import { slotNameSchema } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";

export interface SlotConflicts {
  /** The slot that holds the fixed port this one wants. */
  readonly port: { readonly port: number; readonly holder: string } | undefined;
  /** Aliases this slot was not given, and who has the name. */
  readonly aliases: readonly { readonly alias: string; readonly holder: string }[];
}

interface Claim {
  readonly port: number | undefined;
  readonly aliases: readonly string[];
}

/**
 * Who holds which fixed port and alias. The incumbent keeps what it holds (DECISIONS 6): a newcomer is told,
 * and gets it when the incumbent lets go. A slot's own name and a registry ref always beat an alias.
 */
export class ConflictIndex {
  readonly #claims = new Map<string, Claim>();
  readonly #holders = new Map<string, string>();
  #refs: ReadonlySet<string> = new Set();

  /** Registry refs. Returns the slots whose aliases they touch. */
  setRefs(refs: ReadonlySet<string>): string[] {
    const before = this.#refs;
    this.#refs = refs;
    return [...this.#claims]
      .filter(([, claim]) => claim.aliases.some((alias) => before.has(alias) !== refs.has(alias)))
      .map(([slot]) => slot);
  }

  /**
   * Records what `slot` claims now; undefined when it is gone. Returns the other slots whose conflicts changed.
   */
  update(slot: string, spec: SlotSpec | undefined): string[] {
    const affected = new Set<string>();
    const before = this.#claims.get(slot);
    const after = spec === undefined ? undefined : { port: spec.port, aliases: spec.aliases };
    if (after === undefined) this.#claims.delete(slot);
    else this.#claims.set(slot, after);
    // A slot that appears or goes takes its own name from, or gives it back to, whoever aliases it.
    if ((before === undefined) !== (after === undefined)) {
      for (const [other, claim] of this.#claims)
        if (other !== slot && claim.aliases.includes(slot)) affected.add(other);
    }
    const wanted = new Set(after === undefined ? [] : namesOf(after));
    for (const [name, holder] of this.#holders) {
      if (holder !== slot || wanted.has(name)) continue;
      this.#holders.delete(name);
      // The next in line by name; the others in line see another holder.
      const waiting = [...this.#claims].filter(([, claim]) => namesOf(claim).includes(name)).map(([other]) => other);
      const [heir] = waiting.toSorted();
      if (heir !== undefined) this.#holders.set(name, heir);
      for (const other of waiting) affected.add(other);
    }
    for (const name of wanted) if (!this.#holders.has(name)) this.#holders.set(name, slot);
    affected.delete(slot);
    return [...affected];
  }

  /** Ports that other slots' manifests fix: no automatic port may stand in their way. */
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
