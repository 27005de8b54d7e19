import { setTimeout as delay } from "node:timers/promises";
import type { V1Lease } from "@kubernetes/client-node";
import { knownPart } from "../../api/known-part.ts";
import { demandSchema, heartbeatTtlMs, type Demand } from "../../api/status.ts";
import { bootId } from "../../lib/boot-id.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import { microTime } from "../../kubernetes/lease-election.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import { itemsOf, texts, type KubeObject } from "../../kubernetes/object.ts";
import type { Written } from "../../kubernetes/written.ts";
import { parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { Serial } from "../../lib/serial.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { demandStore, type OpenDemandRecords } from "../state/demand.ts";
import { LivenessWatch } from "../state/liveness.ts";
import type { DemandReport, DemandStore, DemandWriter } from "../store.ts";
import { follow } from "./followed.ts";
import { demandAnnotation, gatewayLease, leasesPath, managed, partLabel, selectorOf } from "./names.ts";
import { collectVoidLeases } from "./void-leases.ts";

const labels = { ...managed, [partLabel]: "gateway" } as const;
export const gatewaysSelector = selectorOf(labels);

export function demandIn(annotations: Readonly<Record<string, string>>): unknown {
  return parseJson(annotations[demandAnnotation] ?? "");
}

/** Many times the age at which demand is void. */
const usualVoidMs = 12 * heartbeatTtlMs;

/** A Lease that is this old when a reader starts is a killed gateway's, whatever the clocks of two machines differ by. */
export const freshMs = 60_000;

/**
 * The demand of every live gateway of the namespace, each in a Lease of its own. A Lease that was not renewed for `voidMs`
 * is deleted. A gateway is silent by the time of an open watch alone: while the API server is away it cannot be heard, and
 * its requests go on.
 */
export async function openDemandLeases(
  client: ApiClient,
  onError: (error: unknown) => void,
  voidMs = usualVoidMs,
): Promise<DemandStore> {
  const opened: { watch?: ListWatch } = {};
  const clocks = { elapsedMs: () => opened.watch?.connectedMs ?? 0, freshMs };
  const openLeases: OpenDemandRecords = async ({ parse, onChange }) => {
    const watch = await follow({
      client,
      path: leasesPath(client.namespace),
      labelSelector: gatewaysSelector,
      onError,
      onChange,
    });
    opened.watch = watch;
    const collecting = collectVoidLeases({ client, leases: watch, voidMs, onError });
    /** Each reconcile of each slot asks for them, and a gateway tells of every slot. */
    const read = new WeakMap<KubeObject, Demand>();
    const demandOf = (object: KubeObject): Demand | undefined => {
      const known = read.get(object) ?? parse(demandIn(object.meta.annotations));
      if (known !== undefined) read.set(object, known);
      return known;
    };
    return {
      *values() {
        for (const object of watch.values()) {
          const demand = demandOf(object);
          if (demand !== undefined) yield [object.meta.name, demand];
        }
      },
      async [Symbol.asyncDispose]() {
        collecting[Symbol.dispose]();
        await watch[Symbol.asyncDispose]();
      },
    };
  };
  return await demandStore(openLeases, clocks);
}

/** Whether a gateway lives, in one read; its clock counts, unless it runs elsewhere. */
export async function hasLiveGatewayLease(client: ApiClient): Promise<boolean | undefined> {
  const liveness = new LivenessWatch();
  try {
    return (await listed(client)).some(({ name, demand }) => {
      const read = knownPart(demandSchema, demand);
      return read !== undefined && liveness.of(name, read) === "live";
    });
  } catch {
    return undefined;
  }
}

async function listed(client: ApiClient): Promise<readonly { readonly name: string; readonly demand: unknown }[]> {
  const page = await client.request("GET", leasesPath(client.namespace), {
    query: { labelSelector: gatewaysSelector },
  });
  return itemsOf(page).flatMap((item) => {
    if (!isRecord(item) || !isRecord(item["metadata"])) return [];
    const { name, annotations } = item["metadata"];
    return [{ name: String(name), demand: demandIn(texts(annotations)) }];
  });
}

/**
 * Without news a gateway writes every 2 s: readers count it as live for `heartbeatTtlMs`. It is called once a second, now and
 * then a little early, and a beat that is left out then comes a second late.
 */
const beatMs = 1900;
/** A write without an answer must leave time for another one before the demand is void. */
const sendLimitMs = heartbeatTtlMs / 2;
/** Between two writes, also where the API server refuses them: news waits for more of it. */
const gapMs = 200;

/**
 * One gateway's Lease; disposing removes it. News is written within `gapMs`, mere heartbeats every `beatMs`: at most
 * five writes a second, whatever the traffic. `elapsedMs`: a monotonic clock.
 */
export function openDemandLease(client: ApiClient, gateway: string, elapsedMs = steadyNow): DemandWriter {
  const name = gatewayLease(gateway);
  const path = leasesPath(client.namespace);
  const writes = new Serial();
  let beat = 0;
  let isClosed = false;
  /** What the API server has. */
  let last: { readonly news: string; readonly atMs: number } | undefined;
  let triedMs = -Infinity;
  let next: DemandReport | undefined;
  const lease = (report: DemandReport): Written<V1Lease> => {
    beat += 1;
    const now = new Date();
    const stamp = {
      gateway,
      pid: process.pid,
      bootId: bootId(),
      heartbeat: now.toISOString(),
      incarnation: gateway,
      beat,
    };
    const demand: Demand = { schema: 1, ...stamp, ...report, slots: slotsOf(report) };
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name, labels, annotations: { [demandAnnotation]: JSON.stringify(demand) } },
      spec: { holderIdentity: gateway, renewTime: microTime(now), leaseDurationSeconds: heartbeatTtlMs / 1000 },
    };
  };
  const send = async (report: DemandReport): Promise<void> => {
    const body = lease(report);
    const query = { fieldManager: "berth-gateway", force: true };
    const call = { query, body, contentType: patchTypes.apply, isHeartbeat: true, timeoutMs: sendLimitMs };
    await client.request("PATCH", `${path}/${name}`, call);
  };
  return {
    async write(report) {
      if (isClosed) return;
      const isQueued = next !== undefined;
      next = report;
      // The write that waits takes the newest report with it.
      if (isQueued) return await writes.settled();
      const ageMs = last === undefined ? Infinity : elapsedMs() - last.atMs;
      const isNews = newsOf(report) !== last?.news;
      if (!isNews && ageMs < beatMs) {
        next = undefined;
        return;
      }
      await writes.run(async () => {
        const waitMs = triedMs + gapMs - elapsedMs();
        if (waitMs > 0) await delay(waitMs);
        const newest = next ?? report;
        next = undefined;
        // A late write must not bring back the demand of a closed gateway.
        if (isClosed) return;
        const atMs = elapsedMs();
        triedMs = atMs;
        await send(newest);
        last = { news: newsOf(newest), atMs };
      });
    },
    async [Symbol.asyncDispose]() {
      isClosed = true;
      await writes.run(async () => {
        await client.request("DELETE", `${path}/${name}`).catch((error: unknown) => {
          if (!isStatus(error, 404)) throw error;
        });
      });
    },
  };
}

/**
 * Without the processes that have no request, which is what one that is not named has: the annotations of an object may
 * have 256 KiB, and each slot is in them.
 */
function slotsOf({ slots }: DemandReport): Demand["slots"] {
  const entries = Object.entries(slots).map(([name, slot]) => {
    return [name, { ...slot, endpoints: slot.endpoints.filter(({ inFlight }) => inFlight > 0) }] as const;
  });
  return Object.fromEntries(entries);
}

/** The part on which the operator acts: times of last use and the size of caches wait for the next heartbeat. */
function newsOf({ slots }: DemandReport): string {
  const counts = Object.entries(slots).map(
    ([slot, { lastRequestAt: _request, lastByteAt: _byte, context: _context, ...rest }]) => [slot, rest],
  );
  return JSON.stringify(counts);
}
