import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { chat } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
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
  it("runs a slot, answers through the gateway, and ends the engine before the object is gone; a built-in slot stays", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("primary", spec);
    await using berth = await startBerth({ env: at.env });
    const pid = await at.pid("primary");
    const slot = ["-n", at.namespace, "slots.berth.dev/primary", "--timeout=180s"];
    await plane.kubectl(["wait", "--for=condition=Ready", ...slot]);
    await until("the gateway answers", async () => (await chat(berth, "primary"))[0] === 200);
    await plane.kubectl(["delete", ...slot]);
    assert.equal(isAlive(pid), false, "its deletion waits for the engine");
    const shown = await until("the gateway has the slot without its object", async () => {
      const found = await berth.slot("primary");
      return JSON.stringify(found).includes("NotConfigured") && found;
    });
    assert.equal(shown["state"], "offline");
    await at.apply("primary", spec);
    assert.notEqual(await at.pid("primary"), pid);
  });

  it("has operators of which one acts: a standby takes over from one that is killed, and another installation ends with the owner's name", async () => {
    await using at = await openSlotSite(plane);
    await at.apply("coder", spec);
    await using first = await startBerth({ args: ["operator"], env: { ...at.env, POD_NAME: "berth-0" } });
    const pid = await at.pid("coder");
    await using stranger = await startBerth({ args: ["operator"], env: at.env });
    assert.equal(await stranger.ended, 1);
    const words = `another operator leads in this namespace: Lease ${at.namespace}/berth-operator is held by berth-0_`;
    assert.ok(stranger.log().includes(words), stranger.log());
    assert.match(stranger.log(), /; each installation needs a namespace of its own; with --standby/);
    const { SVC_OPERATOR_PORT: _port, POD_NAME: _pod, ...shared } = first.env;
    await using second = await startBerth({ args: ["operator", "--standby"], env: shared });
    await until("the second stands by", async () => (await readyz(second)) === "standby");
    first.child.kill("SIGKILL");
    await until("the second acts", async () => (await readyz(second)) === "ok");
    assert.equal(await at.pid("coder"), pid);
    await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
    assert.equal(isAlive(pid), false);
  });

  it("keeps no Slot for a finalizer that came with a copy, and no namespace for an engine that outlives the Lease", async () => {
    await using at = await openSlotSite(plane);
    const copy = (finalizers: readonly string[], ...flags: readonly string[]): string =>
      JSON.stringify({
        apiVersion: "berth.dev/v1alpha1",
        kind: "Slot",
        metadata: { name: "coder", namespace: at.namespace, finalizers: ["berth.dev/engine", ...finalizers] },
        spec: { engine: "custom", command: engineCommand(...flags), stopSeconds: 40 },
      });
    await plane.kubectl(["create", "-f", "-"], copy(["example.org/own"]));
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
    await plane.kubectl(["create", "-f", "-"], copy([], "--ignore-term"));
    const next = await at.pid("coder");
    await plane.kubectl(["delete", "namespace", at.namespace, "--timeout=180s"]);
    await until("the engine has ended", () => !isAlive(next));
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
});
