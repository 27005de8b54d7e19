interface Identified {
  readonly metadata: { readonly uid: string };
}

/** Facts about Pods that the API server does not keep, by the identity of each Pod. */
export class PodMemory<Fact> {
  readonly #facts = new Map<string, Fact>();

  get({ metadata }: Identified): Fact | undefined {
    return this.#facts.get(metadata.uid);
  }

  set({ metadata }: Identified, fact: Fact): void {
    this.#facts.set(metadata.uid, fact);
  }

  forget({ metadata }: Identified): void {
    this.#facts.delete(metadata.uid);
  }

  /** Forgets every other Pod: this operator never ends a Pod that somebody else has deleted. */
  keepOnly(pods: readonly Identified[]): void {
    const known = new Set(pods.map(({ metadata }) => metadata.uid));
    for (const uid of this.#facts.keys()) if (!known.has(uid)) this.#facts.delete(uid);
  }
}
