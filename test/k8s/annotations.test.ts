import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { startControlPlane } from "../support/kube/control-plane.ts";
import { installKinds } from "../support/kube/crds.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

const spec = { engine: "custom", command: engineCommand(), load: "onDemand", model: { default: "m" } };

it("load, swap, restart and unload by kubectl annotate hold, also for the next operator", async () => {
  await using plane = await startControlPlane({ controllers: true });
  await installKinds(plane);
  await using at = await openSlotSite(plane);
  const annotate = async (text: string): Promise<void> =>
    void (await plane.kubectl(["annotate", "--overwrite", "-n", at.namespace, "slots.berth.dev/coder", text]));
  const shows = async (text: string): Promise<void> => {
    await until(`its status has ${text}`, async () => JSON.stringify(await at.status("coder")).includes(text), 60_000);
  };
  await at.apply("coder", spec);
  let pid: number;
  {
    await using _operator = await startBerth({ args: ["operator"], env: at.env });
    await shows('"state":"offline"');
    await annotate("berth.dev/load=1");
    const first = await at.pid("coder");
    await annotate("berth.dev/swap-model=other");
    await shows('"model":{"origin":"swap","ref":"other"');
    assert.notEqual(await at.pid("coder"), first);
    const second = await at.pid("coder");
    await annotate("berth.dev/restart=1");
    await until("another process", async () => (await at.pid("coder")) !== second, 60_000);
    pid = await at.pid("coder");
  }
  await using _next = await startBerth({ args: ["operator"], env: at.env });
  await annotate("berth.dev/restart=1");
  await plane.kubectl(["label", "-n", at.namespace, "slots.berth.dev/coder", "seen=yes"]);
  await shows('"seen":"yes"');
  assert.equal(await at.pid("coder"), pid);
  await shows('"model":{"origin":"swap","ref":"other"');
  await annotate("berth.dev/unload=1");
  await shows("unloaded by request");
  await shows('"state":"offline"');
});
