import type { UpstreamSpec } from "../../api/upstream.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { DiscoveredStore } from "../../store/state/discovered.ts";
import { mergeCatalog, type UpstreamModel } from "./catalog.ts";
import type { CircuitState } from "./circuit.ts";
import { Discovery } from "./discovery.ts";
import { outerLookup } from "../../lib/inner-addresses.ts";
import type { Outcome } from "./provider-failure.ts";
import { KeyWatch } from "./key-watch.ts";
import type { ReadSecret } from "./secrets.ts";
import { Provider } from "./provider.ts";

export interface UpstreamsOptions {
  readonly env: NodeJS.ProcessEnv;
  /** As of `SecretOptions`. */
  readonly readSecret?: ReadSecret | undefined;
  /** The files that `auth.valueFrom.file` may name; absent: any but a service account's. */
  readonly places?: SecretPlaces;
  /** The lists of providers from before this gateway's start, and their store. */
  readonly discovered?: Pick<DiscoveredStore, "get" | "keep">;
  /** A fault that a person must mend, once until it changes; for the log. */
  readonly onProblem: (upstream: string, message: string) => void;
  readonly onOutcome?: (upstream: string, outcome: Outcome, seconds: number | undefined) => void;
  readonly onRetry?: (upstream: string) => void;
  /** Whether everybody could write that address: then it must not lead to a service of this machine. */
  readonly isOpen?: (upstream: string, baseUrl: string) => boolean;
  /** Shorter in tests. */
  readonly discoveryRetryMs?: number;
}

/** The present facts about one upstream. */
export interface UpstreamView {
  readonly name: string;
  readonly spec: UpstreamSpec;
  readonly circuit: CircuitState;
  /** Models whose circuit is open. */
  readonly pausedModels: number;
  readonly inFlight: number;
  readonly queued: number;
  readonly refs: number;
  readonly problems: UpstreamProblems;
}

/** Faults that a person must mend, each without secrets; they may name files. */
export interface UpstreamProblems {
  /** There is no usable key. */
  readonly key: string | undefined;
  /** The provider refuses the key. */
  readonly refused: string | undefined;
  /** The provider's name resolves to a refused address. */
  readonly address: string | undefined;
  /** The provider's models cannot be listed. */
  readonly discovery: string | undefined;
}

const noProblems = (): UpstreamProblems => ({
  key: undefined,
  refused: undefined,
  address: undefined,
  discovery: undefined,
});

/** Faults that an answer of the provider disproves. */
const mendedBy = {
  answer: { key: undefined, refused: undefined, address: undefined },
  list: { refused: undefined, address: undefined },
} as const satisfies Record<string, Partial<UpstreamProblems>>;

/** How long a lost or restored key may go unnoticed without requests. */
const keyMs = 3000;

interface Member {
  readonly provider: Provider;
  readonly discovery: Discovery | undefined;
  readonly keys: KeyWatch | undefined;
  readonly identity: string;
  readonly problems: { -readonly [Of in keyof UpstreamProblems]: string | undefined };
}

/** All providers in the registry. Follows its changes: a changed or dropped one finishes its requests, then closes. */
export class Upstreams implements AsyncDisposable {
  readonly #options: UpstreamsOptions;
  readonly #members = new Map<string, Member>();
  readonly #retiring = new Set<Provider>();
  readonly #subscribers = new Subscribers<[]>();
  #refs: ReadonlyMap<string, UpstreamModel> = new Map();

  constructor(options: UpstreamsOptions) {
    this.#options = options;
  }

  /** Every list of models to discover has been requested once: an unknown model is unknown. */
  get hasTried(): boolean {
    return [...this.#members.values()].every(({ discovery }) => discovery?.hasTried !== false);
  }

  /** Undefined when it was dropped meanwhile. */
  get(name: string): Provider | undefined {
    return this.#members.get(name)?.provider;
  }

  /** Every ref that an upstream serves: replaced as a whole at every change, and never modified. */
  refs(): ReadonlyMap<string, UpstreamModel> {
    return this.#refs;
  }

  /** Called after `refs()` has changed. */
  watch(onChange: () => void): Disposable {
    return this.#subscribers.add(onChange);
  }

  views(): readonly UpstreamView[] {
    const counts = new Map<string, number>();
    for (const { upstream } of this.#refs.values()) counts.set(upstream, (counts.get(upstream) ?? 0) + 1);
    return [...this.#members].map(([name, { provider, problems }]) => ({
      name,
      spec: provider.options.spec,
      circuit: provider.state,
      pausedModels: provider.circuits.pausedModels,
      inFlight: provider.queue.inside,
      queued: provider.queue.waiting,
      refs: counts.get(name) ?? 0,
      problems: { ...problems },
    }));
  }

  /** A person's check has succeeded: earlier failures no longer count. */
  answered(name: string): void {
    const member = this.#members.get(name);
    if (member === undefined) return;
    Object.assign(member.problems, mendedBy.list);
    member.provider.circuits.reset();
  }

  /** Applies the present registry. Unchanged providers continue. */
  update(declared: readonly { readonly name: string; readonly spec: UpstreamSpec }[]): void {
    const wanted = new Map(declared.map(({ name, spec }) => [name, spec]));
    let hasChanged = false;
    for (const [name, member] of this.#members) {
      const spec = wanted.get(name);
      if (spec !== undefined && canonicalJson(spec) === member.identity) continue;
      hasChanged = true;
      this.#drop(name, member);
      if (spec !== undefined) this.#add(name, spec, member);
    }
    for (const [name, spec] of wanted) {
      if (this.#members.has(name)) continue;
      hasChanged = true;
      this.#add(name, spec, undefined);
    }
    if (hasChanged) this.#publish();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    const all = [...this.#members.values()];
    this.#members.clear();
    for (const { discovery, keys } of all) {
      discovery?.[Symbol.dispose]();
      keys?.[Symbol.dispose]();
    }
    const providers = [...all.map(({ provider }) => provider), ...this.#retiring];
    await Promise.all(providers.map((provider) => provider[Symbol.asyncDispose]()));
  }

  #add(name: string, spec: UpstreamSpec, before: Member | undefined): void {
    const { env, readSecret, places, discovered, onOutcome, onRetry, isOpen } = this.#options;
    const { discoveryRetryMs: retryMs = 5000 } = this.#options;
    const { baseUrl } = spec;
    const problems: Member["problems"] = noProblems();
    const provider = new Provider({
      name,
      spec,
      env,
      readSecret,
      ...(places === undefined ? {} : { places }),
      ...(isOpen?.(name, baseUrl) === true ? { lookup: outerLookup() } : {}),
      now: () => performance.now(),
      onOutcome: (outcome, seconds) => {
        if (outcome === "200") Object.assign(problems, mendedBy.answer);
        onOutcome?.(name, outcome, seconds);
      },
      onRetry: () => onRetry?.(name),
      onProblem: (message, of) => this.#problem(name, problems, of, message),
    });
    // For the same provider the old list is better than none.
    const known = before?.provider.options.spec.baseUrl === baseUrl ? before.discovery?.models : undefined;
    const discovery =
      spec.discover === undefined
        ? undefined
        : new Discovery({
            intervalMs: spec.discover.intervalSeconds * 1000,
            retryMs,
            models: known ?? discovered?.get(name, baseUrl) ?? [],
            list: (signal) => provider.list(signal),
            onChange: () => this.#publish(),
            onHeard: (models) => discovered?.keep(name, baseUrl, models),
            onProblem: (message) => {
              // The key was accepted just now.
              if (message === undefined) Object.assign(problems, mendedBy.list);
              this.#problem(name, problems, "discovery", message);
            },
          });
    const keys =
      spec.auth.type === "none"
        ? undefined
        : new KeyWatch({
            check: () => provider.keyProblem(),
            onProblem: (message) => this.#problem(name, problems, "key", message),
            // The environment of a process does not change.
            everyMs: "env" in spec.auth.valueFrom ? undefined : keyMs,
          });
    this.#members.set(name, { provider, discovery, keys, identity: canonicalJson(spec), problems });
  }

  #drop(name: string, { provider, discovery, keys }: Member): void {
    this.#members.delete(name);
    discovery?.[Symbol.dispose]();
    keys?.[Symbol.dispose]();
    this.#retiring.add(provider);
    void provider.retire().finally(() => this.#retiring.delete(provider));
  }

  #problem(
    name: string,
    problems: Member["problems"],
    of: keyof Member["problems"],
    message: string | undefined,
  ): void {
    if (problems[of] === message) return;
    problems[of] = message;
    if (message !== undefined) this.#options.onProblem(name, message);
  }

  #publish(): void {
    const inputs = [...this.#members]
      .map(([name, { provider, discovery }]) => ({
        name,
        spec: provider.options.spec,
        discovered: discovery?.models ?? [],
      }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.#refs = mergeCatalog(inputs, this.#refs);
    this.#subscribers.notify();
  }
}
