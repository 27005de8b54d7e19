import assert from "node:assert/strict";
import { it } from "node:test";
import { identityOf, leadByLease } from "../../../src/store/kubernetes/leadership.ts";
import { ApiDouble } from "../../doubles/api-client.ts";

const path = "/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth-operator";
const pod = { POD_NAME: "berth-0", POD_UID: "7f7b2a5e-13d2-4a07-9d7c-1f7c1f0a3c55" };
const otherPod = { ...pod, POD_UID: "0b3c2a5e-13d2-4a07-9d7c-1f7c1f0a3c55" };
const unnamed = { POD_NAME: "berth-0" };
/** A pid that no process has: beyond the largest one of Linux. */
const endedPid = 2 ** 22 + 1;

for (const [what, { before, now = pod, pid }, isTaken] of [
  ["in its own Pod with its own pid, as after a restart of the container", { before: pod, pid: process.pid }, true],
  ["in its own Pod with a pid that has ended", { before: pod, pid: endedPid }, true],
  ["in its own Pod that lives, as one that a person has started there", { before: pod, pid: process.ppid }, false],
  ["in another Pod of its name, on a node that may live", { before: otherPod, pid: process.pid }, false],
  ["in a Pod whose identity is not known", { before: unnamed, now: unnamed, pid: process.pid }, false],
] as const) {
  it(`the Lease of an operator ${what} is ${isTaken ? "taken at once" : "waited for"}`, async () => {
    using api = new ApiDouble();
    api.put(path, {
      metadata: { annotations: { "berth.dev/pid": String(pid) } },
      spec: {
        holderIdentity: identityOf(before),
        leaseDurationSeconds: 180,
        renewTime: new Date().toISOString().replace("Z", "000Z"),
      },
    });
    const waiting = new AbortController();
    const lead = leadByLease({
      client: api,
      identity: identityOf(now),
      onWarning: assert.fail,
      onLost: () => assert.fail("nobody has taken it"),
      standby: { signal: waiting.signal, onWaiting: () => waiting.abort(new Error("it waits")) },
    });
    if (!isTaken) return await assert.rejects(lead);
    await using lease = await lead;
    lease.check();
  });
}
