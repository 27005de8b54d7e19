import type { CoreV1Event } from "@kubernetes/client-node";
import { apiVersion } from "../../api/names.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { sha256 } from "../../lib/canonical.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import type { Written } from "../../kubernetes/written.ts";
import { isRecord } from "../../lib/record.ts";
import { Serial } from "../../lib/serial.ts";
import { corePath, fieldManager, managed } from "./names.ts";

/** Events that wait for the API server: more are dropped, since the status has the same. */
const waitingLimit = 100;

export interface Events {
  /** Tells of the slot's last transition, once. Never waits and never fails. */
  recordEvent(object: KubeObject, slot: PublishedSlot): void;
  /** Warns the person who wrote the Slot of something that nobody can act on. Never waits and never fails. */
  warn(object: KubeObject, reason: string, message: string): void;
  /** The slot is gone. */
  forget(slot: string): void;
}

interface Told {
  readonly at: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** Kubernetes Events of a Slot's transitions, and warnings. The same words again count the same Event up. */
export function openEvents(client: ApiClient, onError: (error: unknown) => void): Events {
  const writes = new Serial();
  const sentAt = new Map<string, string>();
  const counts = new Map<string, number>();
  let waiting = 0;
  const path = corePath("events", client.namespace);
  const write = async ({ meta }: KubeObject, { at, type, reason, message }: Told): Promise<void> => {
    const name = `${meta.name}.${sha256([meta.uid, reason, message].join("\n")).slice(0, 16)}`;
    const involvedObject = { apiVersion, kind: "Slot", name: meta.name, namespace: client.namespace, uid: meta.uid };
    const lastTimestamp = wholeSeconds(at);
    const event = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name, labels: managed },
      involvedObject,
      reason,
      message: message.slice(0, 1000),
      type,
      source: { component: fieldManager },
      firstTimestamp: wholeSeconds(at),
      lastTimestamp,
      count: 1,
    } satisfies Written<CoreV1Event>;
    const patch = async (body: object): Promise<unknown> =>
      await client.request("PATCH", `${path}/${name}`, { body, contentType: patchTypes.merge });
    let count = 1;
    try {
      await client.request("POST", path, { body: event });
    } catch (error) {
      if (!isStatus(error, 409)) throw error;
      // An earlier operator's count goes on; the answer to a patch has it, and needs no right to read.
      const known = counts.get(name) ?? countIn(await patch({ lastTimestamp }));
      count = known + 1;
      await patch({ count, lastTimestamp });
    }
    counts.set(name, count);
    const [oldest] = counts.keys();
    if (counts.size > 10 * waitingLimit && oldest !== undefined) counts.delete(oldest);
  };
  const tell = (object: KubeObject, told: Told): void => {
    waiting += 1;
    void writes
      .run(() => write(object, told))
      .catch(onError)
      .finally(() => (waiting -= 1));
  };
  return {
    warn(object, reason, message) {
      if (waiting < waitingLimit) tell(object, { at: new Date().toISOString(), type: "Warning", reason, message });
    },
    recordEvent(object, slot) {
      const last = slot.status.transitions.at(-1);
      if (last === undefined || sentAt.get(slot.name) === last.at || waiting >= waitingLimit) return;
      const isFirst = !sentAt.has(slot.name);
      sentAt.set(slot.name, last.at);
      // An earlier operator has sent the events of the states that it published.
      if (isFirst && last.at < startedAt) return;
      const { at, from, to, reason, message } = last;
      const type = to === "error" ? "Warning" : "Normal";
      tell(object, { at, type, reason, message: `${from} → ${to}: ${message}` });
    },
    forget: (slot) => void sentAt.delete(slot),
  };
}

const startedAt = new Date().toISOString();

/** `metav1.Time` has no fraction. */
function wholeSeconds(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}

function countIn(event: unknown): number {
  const count = isRecord(event) ? event["count"] : undefined;
  return typeof count === "number" ? count : 1;
}
