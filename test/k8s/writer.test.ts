import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { objectWriter } from "../../src/store/kubernetes/writer.ts";
import { startBerth } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { kubeconfigText } from "../support/kube/control-plane.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { until } from "../support/until.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

const spec = { model: { default: "m" } };

describe("the writer of custom resources", () => {
  it("creates, replaces, sets and removes, over no other version than was read, and knows the hash that will be published", async () => {
    await using stores = await storesOf(plane.kubeconfig, await plane.namespace());
    using client = await stores.client();
    const writer = objectWriter(client);
    const made = await writer.create("Slot", "a", { spec, labels: { team: "x" } });
    assert.deepEqual([made.outcome, made.specHash], ["created", await writer.specHash("Slot", "a")]);
    await assert.rejects(writer.create("Slot", "a", { spec }), { code: "slot.already_exists" });
    assert.equal((await writer.replace("Slot", "a", { spec })).outcome, "unchanged");
    assert.equal((await writer.replace("Slot", "a", { spec: { ...spec, idleSeconds: 5 } })).outcome, "changed");
    await writer.set("Slot", "a", ["model", "default"], "other");
    const source = await writer.source("Slot", "a");
    assert.match(source?.text ?? "", /team: x[^]*default: other/);
    await assert.rejects(writer.replace("Slot", "a", { spec: { ...spec, pinned: true } }), {
      code: "config.invalid",
      message: /spec\.pinned: .*pinned says something only within a group/,
    });
    await assert.rejects(writer.replace("Slot", "a", { spec: { ...spec, idleSecnds: 1 } }), {
      code: "config.invalid",
      message: /spec\.idleSecnds/,
    });
    const { text = "", hash = "" } = source ?? {};
    await writer.writeSource("Slot", "a", { text: text.replace("default: other", "default: n"), hash });
    await assert.rejects(writer.writeSource("Slot", "a", { text, hash }), { code: "config.changed" });
    assert.equal(await writer.remove("Slot", "a", { isKnown: true }), true);
    assert.equal(await writer.remove("Slot", "a", { isKnown: true }), false);
    assert.equal(await writer.source("Slot", "a"), undefined);
  });
});

it("a gateway that waits for an API server ends on a signal", async () => {
  const namespace = await plane.namespace();
  const kubeconfig = join(plane.directory, "nobody.kubeconfig");
  const url = `https://127.0.0.1:${await freePort()}`;
  await writeFile(kubeconfig, kubeconfigText(url, plane.caFile, plane.token, namespace));
  const env = { SVC_STORE: "kubernetes", SVC_ALLOW_PROCESSES: "1", KUBECONFIG: kubeconfig };
  await using berth = await startBerth({ args: ["serve"], env });
  await until("it says why it waits", () => berth.log().includes(`the API server at ${url} does not answer`));
  assert.equal(await berth.stop("SIGTERM"), 0);
});
