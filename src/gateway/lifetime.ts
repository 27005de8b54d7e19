import { steadyNow } from "../lib/steady-clock.ts";

const discoveryTimeoutMs = 5000;

/** Whether a gateway serves: between its start and its stop. */
export class Lifetime {
  readonly #hasTried: () => boolean;
  readonly #began = steadyNow();
  #isStarted = false;
  /** The end of the time for open requests, by the steady clock; undefined while the gateway does not stop. */
  drainEndsAt: number | undefined;
  /** The other gateway of the state directory has the port: clients are asked to connect again. */
  isRelieved = false;

  /** `hasTried`: every upstream has been asked for its models once. */
  constructor(hasTried: () => boolean) {
    this.#hasTried = hasTried;
  }

  /** Not before upstreams have listed their models, so that no client gets "not found" for one; with a time limit. */
  get isReady(): boolean {
    this.#isStarted ||= this.#hasTried() || steadyNow() - this.#began > discoveryTimeoutMs;
    return this.#isStarted && !this.isDraining;
  }

  /** The gateway stops, and new requests are refused. */
  get isDraining(): boolean {
    return this.drainEndsAt !== undefined && !this.isRelieved;
  }
}
