import assert from "node:assert/strict";
import { once } from "node:events";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { sharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

const spec = { engine: "custom", command: engineCommand(), load: "onDemand", model: { default: "m" } };

it("load, swap, restart and unload by kubectl annotate hold, also for the next operator", async () => {
  await using plane = await sharedPlane();
  await using at = await openSlotSite(plane);
  const annotate = async (text: string): Promise<void> =>
    void (await plane.kubectl(["annotate", "--overwrite", "-n", at.namespace, "slots.berth.dev/coder", text]));
  const shows = async (text: RegExp): Promise<void> => {
    await until(`its status has ${text}`, async () => text.test(JSON.stringify(await at.status("coder"))), 60_000);
  };
  const isSwapped = /"model":\{"origin":"swap",[^}]*"ref":"other"/;
  await at.apply("coder", spec);
  await using first = await startBerth({ args: ["operator"], env: at.env });
  await shows(/"state":"offline"/);
  await annotate("berth.dev/load=1");
  const loaded = await at.pid("coder");
  await annotate("berth.dev/swap-model=other");
  await shows(isSwapped);
  const swapped = await at.pid("coder");
  assert.notEqual(swapped, loaded);
  await annotate("berth.dev/restart=1");
  await until("another process", async () => (await at.pid("coder")) !== swapped, 60_000);
  const restarted = await at.pid("coder");
  first.child.kill("SIGTERM");
  await once(first.child, "close");
  const { SVC_OPERATOR_PORT: _own, ...shared } = first.env;
  await using next = await startBerth({ args: ["operator"], env: shared });
  // The same text again: nothing is requested by it.
  await annotate("berth.dev/restart=1");
  assert.equal(await at.pid("coder"), restarted);
  await shows(isSwapped);
  await annotate("berth.dev/unload=1");
  await shows(/unloaded by request/);
  await shows(/"state":"offline"/);
  assert.doesNotMatch(next.log(), /coder: starting/);
});
