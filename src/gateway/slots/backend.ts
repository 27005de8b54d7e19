import { sha256 } from "../../lib/canonical.ts";
import type { EnginePool } from "../../engine-client/client.ts";
import type { Endpoint } from "./availability.ts";

/** A backend that could not be reached is used again after this time, if no newer status says more. */
const failureMs = 2000;

/** One engine process, as requests use it. */
export class Backend {
  readonly key: string;
  endpoint: Endpoint;
  readonly pool: EnginePool;
  inFlight = 0;
  /** Requests beside the queue, which take no place. */
  unqueued = 0;
  /** The operator publishes this backend as ready: the backend accepts new requests. */
  isReady = true;
  failedAt = -Infinity;
  /** Grows with every choice of the set: the smallest was chosen longest ago. */
  chosen = 0;
  /** When the last byte came from it during a request, by the steady clock; 0 never. */
  lastByteAt = 0;
  readonly context = new CachedContext();

  constructor(key: string, endpoint: Endpoint, pool: EnginePool) {
    this.key = key;
    this.endpoint = endpoint;
    this.pool = pool;
  }
}

/** A request beside the queue at one backend. Its holder disposes it after any end of the request. */
export class UnqueuedLease implements Disposable {
  readonly backend: Backend;
  readonly #onEnd: () => void;
  #hasEnded = false;

  constructor(backend: Backend, onEnd: () => void) {
    this.backend = backend;
    this.#onEnd = onEnd;
  }

  [Symbol.dispose](): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd();
  }
}

/** Another start of an engine is another backend, also at the same host and port. */
export function backendKey({ host, port, process, bearer = "" }: Endpoint): string {
  return `${host} ${port} ${process} ${bearer}`;
}

export function isInUse({ inFlight, unqueued }: Backend): boolean {
  return inFlight > 0 || unqueued > 0;
}

/** The backend of one client, by rendezvous hashing: a backend that leaves moves its own clients alone. */
export function ownOf(client: string, backends: readonly Backend[]): Backend | undefined {
  const [first, ...others] = backends;
  if (first === undefined || others.length === 0) return first;
  const weight = ({ key }: Backend): string => sha256(`${client} ${key}`);
  return backends.reduce((best, each) => (weight(each) > weight(best) ? each : best));
}

export function isFailing({ failedAt }: Backend, now: number): boolean {
  return now - failedAt < failureMs;
}

/** The backend with the fewest requests in flight; among equals, the one that was chosen longest ago. */
export function fewestInFlight(backends: readonly Backend[]): Backend | undefined {
  let found: Backend | undefined;
  for (const backend of backends) {
    if (found === undefined || isLess(backend, found)) found = backend;
  }
  return found;
}

function isLess(a: Backend, b: Backend): boolean {
  return a.inFlight === b.inFlight ? a.chosen < b.chosen : a.inFlight < b.inFlight;
}

/** Answers that are remembered: a short one, as for the title of a chat, does not hide a long conversation. */
const rememberedAnswers = 8;
/** The time of a shorter prompt says little about the speed of reading. */
const leastPromptTokens = 128;
const leastPromptMs = 1;

/** Tokens as an engine counted them in one answer, and the time that it took to read those that were not in its cache. */
export interface AnswerTokens {
  readonly input: number | undefined;
  readonly promptTokens?: number;
  readonly promptMs?: number;
}

/** The tokens of one conversation that an engine has in its cache, and how fast it has read prompts. */
export interface ContextFigure {
  readonly tokens: number;
  readonly tokensPerSecond?: number;
}

/** The tokens in an engine's cache, by the counts in its answers: the longest of the last few conversations. */
export class CachedContext {
  /** A ring: the next answer replaces the oldest. */
  readonly #answers: number[] = [];
  #next = 0;
  #tokensPerSecond: number | undefined;

  /** An answer without generated tokens, as of embeddings, leaves nothing in the cache that a later request could use. */
  answered(usage: AnswerTokens | undefined, tokensOut: number | undefined): void {
    const { input, promptTokens = 0, promptMs = 0 } = usage ?? {};
    if (input === undefined || tokensOut === undefined) return;
    this.#answers[this.#next] = input + tokensOut;
    this.#next = (this.#next + 1) % rememberedAnswers;
    if (promptTokens >= leastPromptTokens && promptMs >= leastPromptMs)
      this.#tokensPerSecond = (promptTokens * 1000) / promptMs;
  }

  get figure(): ContextFigure | undefined {
    if (this.#answers.length === 0) return undefined;
    const tokens = Math.max(...this.#answers);
    const rate = this.#tokensPerSecond;
    return { tokens, ...(rate === undefined ? {} : { tokensPerSecond: Math.max(1, Math.round(rate)) }) };
  }
}
