import type { LookupFunction } from "node:net";
import type { UpstreamSpec } from "../../api/upstream.ts";
import type { ExchangeRequest, PassedTrace } from "../../lib/exchange.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { Outcome } from "./provider-failure.ts";
import type { ReadSecret } from "./secrets.ts";

/**
 * One request, without the client's headers. `path` is an engine's path, e.g. `/v1/chat/completions`: `baseUrl`
 * replaces `/v1`.
 */
export interface ProviderRequest extends ExchangeRequest {
  /** The provider's name for the model. */
  readonly model: string;
  readonly requestId: string;
  readonly trace?: PassedTrace | undefined;
  /** The client: clients take turns where `maxConcurrent` bounds them. */
  readonly client?: string;
  /** Whether the client has received the beginning of its stream. */
  readonly answer?: { readonly hasBegun: boolean };
  /** The wait for one of `maxConcurrent` has ended, in any way, after so many milliseconds. */
  readonly onWaited?: (ms: number) => void;
}

export interface ProviderOptions {
  readonly name: string;
  readonly spec: UpstreamSpec;
  readonly env: NodeJS.ProcessEnv;
  readonly readSecret?: ReadSecret | undefined;
  /** The files that `auth.valueFrom.file` may name; absent: any but a service account's. */
  readonly places?: SecretPlaces;
  /** Kept bodies are counted here. */
  readonly budget: BufferBudget;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** An attempt has ended, or a request could not be attempted: then without a duration. */
  readonly onOutcome: (outcome: Outcome, seconds: number | undefined) => void;
  readonly onRetry: () => void;
  /** A fault that a person must mend: a missing or refused key, a refused address. Never for a client. */
  readonly onProblem: (message: string, of: "key" | "refused" | "address") => void;
  /** Resolves its name for each connection, and may refuse; absent: the system's. */
  readonly lookup?: LookupFunction;
  /** Milliseconds before the first retry; doubled for each further one. */
  readonly backoffMs?: number;
  /** The time limit of reading a provider's error; default: ten seconds. */
  readonly errorTimeoutMs?: number;
}
