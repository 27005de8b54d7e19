import type { LookupFunction } from "node:net";
import type { UpstreamSpec } from "../../api/upstream.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import type { Outcome } from "./provider-failure.ts";
import type { ReadSecret } from "./secrets.ts";

export interface ProviderOptions {
  readonly name: string;
  readonly spec: UpstreamSpec;
  readonly env: NodeJS.ProcessEnv;
  readonly readSecret?: ReadSecret | undefined;
  /** The files that `auth.valueFrom.file` may name; absent: any but a service account's. */
  readonly places?: SecretPlaces;
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
}
