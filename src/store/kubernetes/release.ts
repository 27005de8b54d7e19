import { setTimeout as delay } from "node:timers/promises";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import { readLease } from "../../kubernetes/lease-election.ts";
import { itemsOf, readObject, type KubeObject } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { collectionOf, finalizer, operatorLease } from "./names.ts";

export interface ReleaseOptions {
  /** Of the Slots that are deleted while the operator can still end their engines; absent: none is. */
  readonly selector?: string;
  /** Of the operator, which would otherwise put its finalizers back. */
  readonly deployment?: string;
  /** Longest wait for the Slots, and longest wait for the operator. */
  readonly seconds: number;
  readonly write: (text: string) => void;
}

const pollMs = 200;

/**
 * Leaves no Slot behind that nobody could delete: deletes those of an installation and waits for their engines, stops the
 * operator, then removes its finalizer from every Slot of the namespace. Engines of Slots that stay run on; their Pods go
 * with their Slot. A wait that is over only says so: a Slot without its finalizer is better than one that hangs for ever.
 * Where an operator leads that is not of `deployment`, the other Slots are that one's, and stay as they are. Rejects with
 * the API server's error.
 */
export async function release(client: ApiClient, options: ReleaseOptions): Promise<void> {
  const { selector, deployment, seconds, write } = options;
  const slots = collectionOf("Slot", client.namespace);
  const until = async (isDone: () => Promise<boolean>, late: string): Promise<void> => {
    const endsAtMs = performance.now() + seconds * 1000;
    for (;;) {
      // A look that was begun in time may take long, and end what it has waited for: another one tells.
      const isLast = performance.now() > endsAtMs;
      if (await isDone()) return;
      if (isLast) {
        write(`${late} after ${seconds} s: going on without\n`);
        return;
      }
      await delay(pollMs);
    }
  };

  if (selector !== undefined) {
    const query = { labelSelector: selector };
    const found = await listed(client, slots, query);
    for (const { meta } of found) {
      await client.request("DELETE", `${slots}/${meta.name}`).catch(unlessGone);
      write(`slot ${meta.name}: being deleted\n`);
    }
    const uids = new Set(found.map(({ meta }) => meta.uid));
    const areGone = async (): Promise<boolean> =>
      !(await listed(client, slots, query)).some(({ meta }) => uids.has(meta.uid));
    await until(areGone, "engines have not ended");
  }

  if (deployment !== undefined) {
    const path = `/apis/apps/v1/namespaces/${client.namespace}/deployments/${deployment}`;
    const body = { spec: { replicas: 0 } };
    const scaled = await client
      .request("PATCH", `${path}/scale`, { body, contentType: patchTypes.merge })
      .catch(unlessGone);
    if (scaled !== undefined) write(`deployment ${deployment}: scaled to 0\n`);
    // A standby would take over from the one that ends: none may be left, and then nobody holds the Lease.
    const hasEnded = async (): Promise<boolean> => {
      const value = await client.request("GET", path).catch(unlessGone);
      const status = isRecord(value) && isRecord(value["status"]) ? value["status"] : {};
      if (status["replicas"] !== undefined && status["replicas"] !== 0) return false;
      const holder = await leader(client);
      return holder === undefined || !isPodOf(deployment, holder);
    };
    await until(hasEnded, "the operator has not ended");
    const holder = await leader(client);
    if (holder !== undefined && !isPodOf(deployment, holder)) {
      write(`the operator ${holder} leads in this namespace: the other slots are left to it\n`);
      return;
    }
  }

  const areReleased = async (): Promise<boolean> => {
    const bound = (await listed(client, slots, {})).filter(({ meta }) => meta.finalizers.includes(finalizer));
    for (const { meta } of bound) {
      const { name, uid, resourceVersion } = meta;
      const finalizers = meta.finalizers.filter((each) => each !== finalizer);
      const body = { metadata: { uid, resourceVersion, finalizers } };
      try {
        await client.request("PATCH", `${slots}/${name}`, { body, contentType: patchTypes.merge });
        write(`slot ${name}: released\n`);
      } catch (error) {
        // The object is gone, or another writer was faster: the next list tells.
        if (!isStatus(error, 404, 409)) throw error;
      }
    }
    return bound.length === 0;
  };
  await until(areReleased, "the operator's finalizers are still put back");
}

/** The holder of the operators' Lease; undefined where nobody holds it, or has not renewed it in time. */
async function leader(client: ApiClient): Promise<string | undefined> {
  const lease = await readLease(client, operatorLease);
  return lease?.isFresh(new Date()) === true ? lease.holder : undefined;
}

/** A generated name is cut after this, and gets five letters. */
const longestPrefix = 58;

/**
 * An operator's identity begins with the name of its Pod: the Deployment's, a ReplicaSet's hash, cut where both are long
 * (https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/storage/names/generate.go), and
 * five letters.
 */
function isPodOf(deployment: string, identity: string): boolean {
  const pod = identity.slice(0, identity.indexOf("_"));
  if (!/[a-z0-9]{5}$/.test(pod)) return false;
  const prefix = pod.slice(0, -5);
  if (prefix.length < longestPrefix)
    return prefix.startsWith(`${deployment}-`) && /^[a-z0-9]+-$/.test(prefix.slice(deployment.length + 1));
  const own = `${deployment}-`.slice(0, longestPrefix);
  return prefix.startsWith(own) && /^[a-z0-9]{0,10}-?$/.test(prefix.slice(own.length));
}

async function listed(
  client: ApiClient,
  path: string,
  query: Readonly<Record<string, string>>,
): Promise<readonly KubeObject[]> {
  // Without the kind there is no Slot.
  const page = await client.request("GET", path, { query }).catch(unlessGone);
  return itemsOf(page).flatMap((item) => readObject(item) ?? []);
}

function unlessGone(error: unknown): undefined {
  if (!isStatus(error, 404)) throw error;
}
