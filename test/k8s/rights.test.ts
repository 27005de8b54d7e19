import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { z } from "zod";
import { openApiClient } from "../../src/kubernetes/client.ts";
import { connect } from "../../src/kubernetes/connection.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { plainContainer } from "../support/container.ts";
import { accountWith, storeRights } from "../support/kube/account.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";
import { workload } from "../runtimes/kubernetes/manifests.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

describe("rights in a cluster", { concurrency: true }, () => {
  it("a program without a right ends or continues, with the verb and the resource in its log", async () => {
    const blind = await accountWith(
      plane,
      storeRights.filter(({ resources }) => !resources.includes("slots")),
    );
    const env = (account: typeof blind): NodeJS.ProcessEnv => ({
      SVC_STORE: "kubernetes",
      SVC_ALLOW_PROCESSES: "1",
      KUBECONFIG: account.kubeconfig,
    });
    for (const command of ["operator", "serve"]) {
      await using refused = await startBerth({ args: [command], env: env(blind) });
      await until("it has ended", () => refused.child.exitCode !== null, 60_000);
      // What it said last may come after its exit.
      assert.equal(await refused.ended, 1);
      assert.match(refused.log(), /slots\.berth\.dev is forbidden: .* cannot list resource "slots"/);
    }
    const mute = await accountWith(
      plane,
      storeRights.filter(({ resources }) => !resources.includes("slots/status")),
    );
    const slot = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "a" }, spec: { enabled: false } };
    await plane.kubectl(["apply", "-n", mute.namespace, "-f", "-"], JSON.stringify(slot));
    await using operator = await startBerth({ args: ["operator"], env: env(mute) });
    await until("it tells", () => /cannot patch resource "slots\/status"/.test(operator.log()), 60_000);
    assert.equal(operator.child.exitCode, null);
  });

  it("without rights to Pods the operator neither lists nor starts engines, and the message names the missing right", async () => {
    const open = async (verbs: readonly string[]) => {
      const pods = { apiGroups: [""], resources: ["pods"], verbs };
      const { kubeconfig } = await accountWith(plane, verbs.length === 0 ? [] : [pods]);
      const client = openApiClient(await connect({ KUBECONFIG: kubeconfig }));
      return await openKubernetesRuntime({ client, site: { instance: "test", user: 65_532 } });
    };
    const started = {
      ...workload,
      container: { ...plainContainer, pod: { backend: "cpu", extended: {}, claims: [] } },
    };
    await using blind = await open([]);
    await assert.rejects(blind.observe("primary"), {
      name: "RuntimeUnavailable",
      message: /pods is forbidden: .* cannot list resource "pods"/,
    });
    await using mute = await open(["get", "list", "watch"]);
    await assert.rejects(mute.ensure(started), /cannot create resource "pods"/);
    assert.deepEqual(await mute.observe("primary"), []);
  });

  it("rights that are taken away stop no engine and no gateway, and once they are back everything goes on", async () => {
    const { kubeconfig, namespace } = await accountWith(plane, storeRights);
    await using at = await openSlotSite(plane, { kubeconfig, namespace });
    const spec = { engine: "custom", command: engineCommand() };
    await at.apply("chat", spec);
    await using berth = await startBerth({ env: at.env });
    const pid = await at.pid("chat");
    await until("the gateway answers", async () => (await chat(berth, "chat"))[0] === 200);
    await plane.kubectl(["delete", "rolebinding", "-n", namespace, "berth"]);
    await until(
      "it says which right is missing",
      () => /leases\S* "\S+" is forbidden: .* cannot/.test(berth.log()),
      60_000,
    );
    // Longer than an operator may act without a renewal.
    const lease = z.object({ spec: z.object({ renewTime: z.string() }) });
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/berth-operator`;
    const ageMs = async (): Promise<number> =>
      Date.now() - Date.parse(lease.parse(await plane.ask(path)).spec.renewTime);
    await until("the Lease is out of date", async () => (await ageMs()) > 12_000, 60_000);
    assert.equal((await chat(berth, "chat"))[0], 200);
    const binding = ["create", "rolebinding", "-n", namespace, "berth", "--role=berth"];
    await plane.kubectl([...binding, `--serviceaccount=${namespace}:berth`]);
    await at.apply("chat", { ...spec, idleSeconds: 77 });
    await until("it follows", async () => (await at.status("chat"))["observedGeneration"] === 2, 60_000);
    assert.equal(await at.pid("chat"), pid);
    assert.equal((await chat(berth, "chat"))[0], 200);
    await plane.kubectl(["delete", "-n", namespace, "slots.berth.dev/chat", "--timeout=180s"]);
  });
});
