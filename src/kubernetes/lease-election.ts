import { setTimeout as delay } from "node:timers/promises";
import type { V1Lease } from "@kubernetes/client-node";
import { isRecord } from "../lib/record.ts";
import { Serial } from "../lib/serial.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { ApiError, isStatus } from "./api-error.ts";
import type { ApiClient, Call } from "./client.ts";
import { texts } from "./object.ts";
import type { Written } from "./written.ts";

/** Times as in client-go's leader election, and the same Lease fields: kubectl and other clients read them. */
export interface ElectionTimes {
  /** A holder that has not renewed for this long, as its observer has watched it, may be replaced. */
  readonly durationMs: number;
  /** A holder that could not renew for this long acts no more. Less than `durationMs`. */
  readonly deadlineMs: number;
  readonly renewMs: number;
  /** The interval at which a candidate reads the lease. */
  readonly pollMs: number;
}

const usualTimes: ElectionTimes = { durationMs: 15_000, deadlineMs: 10_000, renewMs: 2000, pollMs: 1000 };

export interface Candidate {
  readonly client: ApiClient;
  readonly name: string;
  readonly identity: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The annotations of the Lease beside its own fields; read at each write. `before`: those when it was taken. */
  readonly annotations: (before: Readonly<Record<string, string>>) => Readonly<Record<string, string>>;
  readonly times?: ElectionTimes;
  /** In milliseconds; absent: the steady clock. */
  readonly now?: () => number;
  readonly onError?: (error: unknown) => void;
  /** Whether the holder is known to be dead: its Lease is taken at once. Absent: nothing is known of other holders. */
  readonly hasEnded?: (view: LeaseView) => boolean;
}

/** A Lease as it is now. */
export interface LeaseView {
  readonly holder: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  readonly isFresh: (now: Date) => boolean;
}

interface Found extends LeaseView {
  readonly resourceVersion: string;
  readonly transitions: number;
  readonly durationMs: number;
  /** Differs after each renewal. */
  readonly mark: string;
}

/** Another holder has the Lease, and renews it. */
export class HeldByOther extends Error {
  readonly view: LeaseView;
  constructor(name: string, view: LeaseView) {
    super(`Lease ${name} is held by ${view.holder ?? "nobody"}`);
    this.name = "HeldByOther";
    this.view = view;
  }
}

/** Undefined without such a Lease. */
export async function readLease(client: ApiClient, name: string): Promise<LeaseView | undefined> {
  return await findLease(client, name);
}

export interface WaitOptions {
  /** Absent: rejects with HeldByOther once the holder has renewed. */
  readonly standby?: { readonly onWaiting: (view: LeaseView) => void; readonly signal: AbortSignal };
  readonly onLost: () => void;
}

/** Resolves once this candidate holds the Lease. A holder is judged by this process's clock alone. */
export async function acquireLease(candidate: Candidate, { standby, onLost }: WaitOptions): Promise<HeldLease> {
  const { client, name, identity, hasEnded, times = usualTimes, now = steadyNow } = candidate;
  let seen: { readonly mark: string; readonly atMs: number } | undefined;
  let isWaiting = false;
  for (;;) {
    standby?.signal.throwIfAborted();
    try {
      const found = await findLease(client, name);
      // Its own: the answer to the write that took it was lost.
      const isFree = found?.holder === undefined || found.holder === identity || hasEnded?.(found) === true;
      if (found !== undefined && !isFree && seen?.mark !== found.mark) {
        // A renewal while this process watches: the holder lives.
        if (seen !== undefined && standby === undefined) throw new HeldByOther(name, found);
        seen = { mark: found.mark, atMs: now() };
      }
      if (found === undefined || isFree || (seen !== undefined && now() - seen.atMs > found.durationMs)) {
        const atMs = now();
        const transitions = found === undefined ? 0 : found.transitions + 1;
        const term = { acquireTime: microTime(new Date()), transitions };
        const before = found?.annotations;
        const version = await write(candidate, { ...term, version: found?.resourceVersion, before });
        return new HeldLease(candidate, { ...term, version, atMs, onLost });
      }
      if (!isWaiting) standby?.onWaiting(found);
      isWaiting = true;
    } catch (error) {
      if (error instanceof HeldByOther || isStatus(error, 401, 403)) throw error;
      // A conflict: another candidate was faster, or the holder has renewed.
      if (!isStatus(error, 409)) {
        if (standby === undefined && seen === undefined) throw error;
        candidate.onError?.(error);
      }
    }
    const waitMs = times.pollMs * (0.8 + Math.random() * 0.4);
    await delay(waitMs, undefined, standby === undefined ? {} : { signal: standby.signal });
  }
}

/** A Lease that this process holds and renews until it is released. */
export class HeldLease implements AsyncDisposable {
  readonly #candidate: Candidate;
  readonly #times: ElectionTimes;
  readonly #now: () => number;
  readonly #onLost: () => void;
  readonly #writes = new Serial();
  readonly #stop = new AbortController();
  readonly #renewing: Promise<void>;
  readonly #term: Term;
  #version: string;
  #renewedMs: number;
  #isOver = false;
  #isNamespaceEnding = false;

  constructor(candidate: Candidate, held: Term & { version: string; atMs: number; onLost: () => void }) {
    this.#candidate = candidate;
    this.#term = { acquireTime: held.acquireTime, transitions: held.transitions };
    this.#times = candidate.times ?? usualTimes;
    this.#now = candidate.now ?? steadyNow;
    this.#version = held.version;
    this.#renewedMs = held.atMs;
    this.#onLost = held.onLost;
    this.#renewing = this.#renewAgain();
  }

  /**
   * False where another may act by now, also while the API server does not answer for too long. In a namespace that is gone
   * and made again another may act until the next renewal.
   */
  isHeld(): boolean {
    return !this.#isOver && this.#now() - this.#renewedMs < this.#times.deadlineMs;
  }

  /** Renews now, with the present annotations. */
  async renew(): Promise<void> {
    await this.#writes.run(async () => await this.#renew());
  }

  /** Lets another candidate take it at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    const wasOver = this.#isOver;
    this.#isOver = true;
    this.#stop.abort();
    await this.#renewing;
    // Behind a renewal that is on its way, whose version it would not know.
    if (!wasOver) await this.#writes.run(async () => await this.#release()).catch(() => undefined);
  }

  async #release(): Promise<void> {
    const { client, name, identity } = this.#candidate;
    const found = await findLease(client, name, renewalLimit(this.#times));
    if (found?.holder !== identity) return;
    const { resourceVersion: version } = found;
    const released = { ...this.#candidate, annotations: () => found.annotations };
    await write(released, { ...this.#term, version, isReleased: true });
  }

  async #renewAgain(): Promise<void> {
    const { signal } = this.#stop;
    while (!this.#isOver) {
      const waitMs = this.#times.renewMs * (0.9 + Math.random() * 0.2);
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
      if (this.#isOver) return;
      await this.renew().catch((error: unknown) => this.#candidate.onError?.(error));
    }
  }

  async #renew(): Promise<void> {
    if (this.#isOver) return;
    const atMs = this.#now();
    try {
      await this.#write();
      this.#isNamespaceEnding = false;
    } catch (error) {
      // Nobody can take the Lease there: who has held it to the end holds it without.
      if (!(error instanceof ApiError && error.isNamespaceEnding && this.isHeld())) throw error;
      if (!this.#isNamespaceEnding) this.#candidate.onError?.(error);
      this.#isNamespaceEnding = true;
    }
    if (!this.#isOver) this.#renewedMs = atMs;
  }

  async #write(): Promise<void> {
    const { client, name, identity } = this.#candidate;
    const limit = renewalLimit(this.#times);
    try {
      this.#version = await write(this.#candidate, { ...this.#term, version: this.#version, limit });
    } catch (error) {
      if (!isStatus(error, 404, 409) || (error instanceof ApiError && error.isNamespaceEnding)) throw error;
      const found = await findLease(client, name, limit);
      if (found !== undefined && found.holder !== identity) {
        this.#isOver = true;
        this.#onLost();
        return;
      }
      // Deleted, or changed by a person, and still this holder's.
      this.#version = await write(this.#candidate, { ...this.#term, version: found?.resourceVersion, limit });
    }
  }
}

type Limit = Pick<Call, "timeoutMs">;

/** A renewal without an answer must leave time for another one before the holder may act no more. */
const renewalLimit = ({ deadlineMs }: ElectionTimes): Limit => ({ timeoutMs: deadlineMs / 2 });

const pathOf = ({ namespace }: ApiClient): string => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;

async function findLease(client: ApiClient, name: string, limit: Limit = {}): Promise<Found | undefined> {
  let value: unknown;
  try {
    value = await client.request("GET", `${pathOf(client)}/${name}`, { ...limit, isHeartbeat: true });
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
  if (!isRecord(value) || !isRecord(value["metadata"])) throw new Error(`Lease ${name} has no metadata`);
  const spec = isRecord(value["spec"]) ? value["spec"] : {};
  const { holderIdentity, renewTime, leaseTransitions, leaseDurationSeconds } = spec;
  const durationMs = (typeof leaseDurationSeconds === "number" ? leaseDurationSeconds : 15) * 1000;
  const renewedAt = typeof renewTime === "string" ? Date.parse(renewTime) : 0;
  const transitions = typeof leaseTransitions === "number" ? leaseTransitions : 0;
  return {
    holder: typeof holderIdentity === "string" && holderIdentity !== "" ? holderIdentity : undefined,
    annotations: texts(value["metadata"]["annotations"]),
    resourceVersion: String(value["metadata"]["resourceVersion"]),
    isFresh: (now) => Math.abs(now.getTime() - renewedAt) < durationMs,
    transitions,
    durationMs,
    mark: `${String(holderIdentity)} ${String(renewTime)} ${transitions}`,
  };
}

/** The fields that renewals keep. */
interface Term {
  readonly acquireTime: string;
  readonly transitions: number;
}

/**
 * Writes the whole Lease, only over the version that was read, or a new one: of two writers one gets 409. Returns its
 * version.
 */
async function write(
  { client, name, identity, labels, annotations, times = usualTimes }: Candidate,
  {
    acquireTime,
    transitions,
    version,
    before = {},
    isReleased = false,
    limit = {},
  }: Term & {
    readonly version: string | undefined;
    readonly before?: Readonly<Record<string, string>> | undefined;
    readonly isReleased?: boolean;
    readonly limit?: Limit;
  },
): Promise<string> {
  const resourceVersion = version === undefined ? {} : { resourceVersion: version };
  const body = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, labels, annotations: annotations(before), ...resourceVersion },
    spec: {
      holderIdentity: isReleased ? "" : identity,
      leaseDurationSeconds: isReleased ? 1 : Math.ceil(times.durationMs / 1000),
      acquireTime,
      renewTime: microTime(new Date()),
      leaseTransitions: transitions,
    },
  } satisfies Written<V1Lease>;
  const call = { body, ...limit, isHeartbeat: true };
  const answer =
    version === undefined
      ? await client.request("POST", pathOf(client), call)
      : await client.request("PUT", `${pathOf(client)}/${name}`, call);
  if (!isRecord(answer) || !isRecord(answer["metadata"])) throw new Error(`Lease ${name}: the answer has no metadata`);
  return String(answer["metadata"]["resourceVersion"]);
}

/** `metav1.MicroTime` has six digits, no more and no fewer. */
export function microTime(date: Date): string {
  return date.toISOString().replace("Z", "000Z");
}
