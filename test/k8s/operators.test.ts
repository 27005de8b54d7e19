import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { apiVersion } from "../../src/api/names.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { startFaultProxy } from "../support/kube/fault-proxy.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

const spec = { engine: "custom", command: engineCommand() };

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

async function readyz({ operatorUrl }: RunningBerth): Promise<string> {
  return (await (await fetch(`${operatorUrl}/readyz`)).text()).trim();
}

/** A process that nobody has reaped has ended. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

describe("Berth on custom resources", { concurrency: true }, () => {
  it("runs a slot, answers through the gateway, restarts on an annotation, and ends it before it is gone", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    await using berth = await startBerth({ env: at.env });
    const pid = await at.pid("coder");
    const wait = ["wait", "--for=condition=Ready", "--timeout=180s", "-n", at.namespace, "slots.berth.dev/coder"];
    await plane.kubectl(wait);
    const answer = await until("the gateway answers", async () => {
      const found = await fetch(`${berth.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hello" }] }),
      });
      return found.ok ? found : undefined;
    });
    assert.equal(answer.status, 200);
    const annotate = ["annotate", "-n", at.namespace, "slots.berth.dev/coder"];
    await plane.kubectl([...annotate, "berth.dev/restart=once"]);
    await until("another process", async () => (await at.pid("coder")) !== pid);
    const next = await at.pid("coder");
    await until("an Event tells of it", async () =>
      /Loaded.*warming → ready/.test(await plane.kubectl(["get", "events", "-n", at.namespace])),
    );
    const { conditions, observedGeneration } = await at.status("coder");
    assert.ok(Array.isArray(conditions) && observedGeneration === 1);
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
    assert.equal(isAlive(next), false, "its deletion waits for the engine");
  });

  it("lets go of the object of a built-in slot, which stays without it", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("primary", spec);
    await using berth = await startBerth({ env: at.env });
    const pid = await at.pid("primary");
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/primary", "--timeout=180s"]);
    assert.equal(isAlive(pid), false, "its deletion waits for the engine");
    const shown = await until("the gateway has the slot without its object", async () => {
      const answer = await (await fetch(`${berth.url}/api/slots/primary`)).text();
      return answer.includes("NotConfigured") ? answer : undefined;
    });
    assert.match(shown, /"state":"offline"/);
    await at.apply("primary", spec);
    assert.notEqual(await at.pid("primary"), pid);
  });

  it("reports on the object the problems that only the operator finds, and keeps the running engine", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    await using _berth = await startBerth({ args: ["up"], env: at.env });
    const pid = await at.pid("coder");
    await at.apply("coder", { ...spec, env: { "not a name": "x" } });
    await until("it is Stalled", async () =>
      /spec\.env[^}]*"type":"Stalled"/.test(JSON.stringify(await at.status("coder"))),
    );
    assert.ok(isAlive(pid));
    await at.client.request("DELETE", `/apis/${apiVersion}/namespaces/${at.namespace}/slots/coder`);
    await until("the engine has ended", () => !isAlive(pid));
  });

  it("has two operators: one killed, or asked to stop, the other acts and no engine is restarted", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    await using first = await startBerth({ args: ["operator"], env: at.env });
    const pid = await at.pid("coder");
    const { SVC_OPERATOR_PORT: _own, ...shared } = first.env;
    await using second = await startBerth({ args: ["operator", "--standby"], env: shared });
    await until("the second stands by", async () => (await readyz(second)) === "standby");
    first.child.kill("SIGKILL");
    await until("the second acts", async () => (await readyz(second)) === "ok");
    assert.equal(await at.pid("coder"), pid);
    await using next = await startBerth({ args: ["operator", "--standby"], env: shared });
    await until("the next one stands by", async () => (await readyz(next)) === "standby");
    await second.stop("SIGTERM");
    await until("the next one acts", async () => (await readyz(next)) === "ok");
    assert.equal(await at.pid("coder"), pid);
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
    assert.equal(isAlive(pid), false);
  });

  it("restarts nothing when its watches are dropped each second and every third request is refused", async () => {
    const namespace = await plane.namespace();
    await using proxy = await startFaultProxy(plane, namespace);
    await using at = await openSlotSite(plane, { kubeconfig: proxy.kubeconfig, namespace });
    await at.apply("coder", spec);
    await using berth = await startBerth({ env: at.env });
    const pid = await at.pid("coder");
    let count = 0;
    proxy.faults.refuse = () => (count++ % 3 === 0 ? 500 : undefined);
    const dropping = setInterval(() => proxy.dropWatches(), 1000);
    await at.apply("coder", { ...spec, idleSeconds: 77 });
    await until("it follows", async () => (await at.status("coder"))["observedGeneration"] === 2);
    clearInterval(dropping);
    proxy.faults.refuse = undefined;
    assert.equal(await at.pid("coder"), pid);
    assert.equal((await fetch(`${berth.url}/readyz`)).status, 200);
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
    assert.equal(isAlive(pid), false);
  });

  it("does not keep a namespace that is being deleted, and ends an engine that outlives the Lease", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", { engine: "custom", command: engineCommand("--ignore-term"), stopSeconds: 40 });
    await using _berth = await startBerth({ env: at.env });
    const pid = await at.pid("coder");
    await plane.kubectl(["delete", "namespace", at.namespace, "--timeout=180s"]);
    await until("the engine has ended", () => !isAlive(pid));
  });

  it("keeps no Slot and no namespace for a finalizer that came with a copy of a Slot", async () => {
    await using at = await openSlotSite(plane);
    const copy = (name: string): string =>
      JSON.stringify({
        apiVersion: "berth.dev/v1alpha1",
        kind: "Slot",
        metadata: { name, namespace: at.namespace, finalizers: ["berth.dev/engine", "example.org/own"] },
        spec,
      });
    await plane.kubectl(["create", "-f", "-"], copy("coder"));
    await using _berth = await startBerth({ env: at.env });
    const pid = await at.pid("coder");
    const slot = ["-n", at.namespace, "slots.berth.dev/coder"];
    await plane.kubectl(["delete", ...slot, "--wait=false"]);
    await until(
      "only the finalizer of others is left",
      async () =>
        (await plane.kubectl(["get", ...slot, "-o", "jsonpath={.metadata.finalizers}"])) === '["example.org/own"]',
    );
    assert.equal(isAlive(pid), false);
    await plane.kubectl(["patch", ...slot, "--type=merge", "-p", '{"metadata":{"finalizers":null}}']);
    await plane.kubectl(["create", "-f", "-"], copy("coder").replace(',"example.org/own"', ""));
    await at.pid("coder");
    await plane.kubectl(["delete", "namespace", at.namespace, "--timeout=180s"]);
  });

  it("lets a namespace go that is being deleted already when an operator starts, which says why it cannot lead", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    const first = await startBerth({ args: ["operator"], env: at.env });
    const pid = await at.pid("coder");
    // A crash of the machine: the finalizer stays, and nobody is there to take it away.
    first.child.kill("SIGKILL");
    process.kill(-pid, "SIGKILL");
    await until("the engine has ended", () => !isAlive(pid));
    await first[Symbol.asyncDispose]();
    await plane.kubectl(["delete", "namespace", at.namespace, "--wait=false"]);
    const phase = async (): Promise<string> => {
      const args = ["get", "namespace", at.namespace, "-o", "jsonpath={.status.phase}", "--ignore-not-found"];
      return await plane.kubectl(args);
    };
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${at.namespace}/leases`;
    const isGone = async (): Promise<boolean> => !JSON.stringify(await plane.ask(leases)).includes("berth-operator");
    await until("its Lease is gone", isGone);
    assert.equal(await phase(), "Terminating");
    await using second = await startBerth({ args: ["operator"], env: at.env });
    await until("the namespace is gone", async () => (await phase()) === "");
    await until("it has ended", () => second.child.exitCode !== null);
    // What it said last may come after its exit.
    await second.ended;
    assert.match(second.log(), /namespace \S+ because it is being terminated/);
  });

  it("of two installations in one namespace only the first acts, and the second names the owner of the namespace", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    await using _first = await startBerth({ args: ["operator"], env: { ...at.env, POD_NAME: "berth-0" } });
    const pid = await at.pid("coder");
    await using second = await startBerth({ args: ["operator"], env: at.env });
    await until("the second has ended", () => second.child.exitCode !== null);
    assert.equal(await second.ended, 1);
    const words = `another operator leads in this namespace: Lease ${at.namespace}/berth-operator is held by berth-0_`;
    assert.ok(second.log().includes(words), second.log());
    assert.match(second.log(), /; each installation needs a namespace of its own; with --standby/);
    assert.equal(await at.pid("coder"), pid);
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
  });
});
