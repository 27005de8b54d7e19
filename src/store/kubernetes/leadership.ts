import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { publishedOperatorSchema, type PublishedOperator } from "../../api/status.ts";
import { knownPart } from "../../api/known-part.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import {
  acquireLease,
  HeldByOther,
  readLease,
  type ElectionTimes,
  type HeldLease,
  type LeaseView,
} from "../../kubernetes/lease-election.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { LockHeld } from "../state/lock.ts";
import { LeadershipLost, type LeadOptions, type Lease, type OperatorReport } from "../store.ts";
import { managed, operatorLease, pidAnnotation, recordAnnotation } from "./names.ts";

/** Between two renewals readers count the operator as live; the record goes with them. */
export interface LeaderLease extends Lease {
  /** Published with the next renewal; at once where it says something new. */
  publish(report: OperatorReport): Promise<void>;
}

export interface LeadershipOptions extends LeadOptions {
  readonly client: ApiClient;
  /** Of the Pod, or of the machine. */
  readonly identity: string;
  readonly times?: ElectionTimes;
}

/** Of the operators of one namespace only the holder of the Lease `berth-operator` acts. */
export async function leadByLease(options: LeadershipOptions): Promise<LeaderLease> {
  const { client, identity, times, onWarning, onLost, standby } = options;
  const incarnation = randomUUID();
  let report: OperatorReport | undefined;
  let beat = 0;
  /** The last operator's record, until this one has published its own. */
  let inherited: string | undefined;
  const annotations = (before: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
    beat += 1;
    inherited = before[recordAnnotation] ?? inherited;
    const own = report && JSON.stringify({ ...report, heartbeat: new Date().toISOString(), incarnation, beat });
    const record = own ?? inherited;
    const pid = { [pidAnnotation]: String(process.pid) };
    return record === undefined ? pid : { ...pid, [recordAnnotation]: record };
  };
  const candidate = {
    client,
    name: operatorLease,
    identity,
    labels: managed,
    annotations,
    hasEnded: (view: LeaseView) => isEndedHere(view, identity),
    ...(times === undefined ? {} : { times }),
    onError: (error: unknown) => onWarning(`Lease ${operatorLease}: ${String(error)}`),
  };
  let held: HeldLease;
  try {
    held = await acquireLease(candidate, {
      onLost,
      ...(standby && {
        standby: { signal: standby.signal, onWaiting: (view) => standby.onWaiting(pidOf(view)) },
      }),
    });
  } catch (error) {
    if (error instanceof HeldByOther)
      throw new LockHeld(`Lease ${client.namespace}/${operatorLease}`, pidOf(error.view), error.view.holder);
    throw error;
  }
  const check = (): void => {
    if (!held.isHeld()) throw new LeadershipLost();
  };
  return {
    check,
    async publish(next) {
      check();
      const isNews = JSON.stringify(next) !== JSON.stringify(report);
      report = next;
      if (isNews) await held.renew();
    },
    [Symbol.asyncDispose]: () => held[Symbol.asyncDispose](),
  };
}

/** Unique for each start, and readable in `kubectl get lease`; in a Pod with the Pod's own identity. */
export function identityOf(env: NodeJS.ProcessEnv): string {
  const uid = env["POD_UID"] || undefined;
  return [env["POD_NAME"] || hostname(), ...(uid === undefined ? [] : [uid]), randomUUID()].join("_");
}

const podIdentity = /^(.+_[\da-f-]{36}_)[\da-f-]{36}$/;

/**
 * Whether the holder was a process of this very Pod that has ended. The kubelet starts a container again only after its
 * end; a process that somebody has started beside it in the same container is alive, and has another pid.
 */
function isEndedHere(view: LeaseView, identity: string): boolean {
  const pod = podIdentity.exec(identity)?.[1];
  const pid = pidOf(view);
  if (pod === undefined || view.holder?.startsWith(pod) !== true || pid === 0) return false;
  return pid === process.pid || !isAlive(pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) !== "ESRCH";
  }
}

export function recordOf(view: Pick<LeaseView, "annotations"> | undefined): PublishedOperator | undefined {
  const text = view?.annotations[recordAnnotation];
  return text === undefined ? undefined : knownPart(publishedOperatorSchema, parseJson(text));
}

/** The pid of the operator that leads; undefined without one. */
export async function leaderPid(client: ApiClient): Promise<number | undefined> {
  const found = await readLease(client, operatorLease);
  return found?.holder === undefined || !found.isFresh(new Date()) ? undefined : pidOf(found);
}

function pidOf({ annotations }: LeaseView): number {
  return Number(annotations[pidAnnotation] ?? 0);
}
