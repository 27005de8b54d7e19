import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { Observed, Workload } from "../../src/api/workload.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import { sharedCluster } from "../support/kube/shared.ts";
import { until } from "../support/until.ts";
import { ClusterSite } from "./pod-site.ts";

const cluster = await sharedCluster();
after(async () => await cluster[Symbol.asyncDispose]());

const needs = { backend: "cpu", extended: {}, claims: [] } as const;

async function scene(run: (site: ClusterSite, runtime: Runtime) => Promise<void>): Promise<void> {
  await using site = await ClusterSite.make(cluster);
  await using runtime = await site.open();
  await run(site, runtime);
}

async function only(runtime: Runtime): Promise<Observed> {
  const [first, ...more] = await runtime.observe("primary");
  assert.ok(first !== undefined && more.length === 0);
  return first;
}

async function exited(runtime: Runtime): Promise<NonNullable<Observed["exit"]>> {
  return await until("it has ended", async () => (await only(runtime)).exit);
}

async function pendingFor(runtime: Runtime, reason: string): Promise<NonNullable<Observed["pending"]>> {
  return await until(`it waits: ${reason}`, async () => {
    const { pending } = await only(runtime);
    return pending?.reason === reason && pending;
  });
}

async function listening(runtime: Runtime): Promise<Observed> {
  return await until("it listens", async () => (await only(runtime)).isListening && (await only(runtime)));
}

/** Runs that script instead of the engine. */
function script(site: ClusterSite, code: string, more: Partial<Workload> = {}): Workload {
  const workload = site.workload(0, [], { replacesEntrypoint: true });
  return { ...workload, command: ["/usr/bin/node", "-e", code, "--"], ...more };
}

/** Each in a namespace of its own; they wait most of the time. */
describe("a Pod of the node", { concurrency: 3 }, () => {
  it("arguments and variables arrive unchanged, whatever the kubelet would expand in them", async () => {
    await scene(async (site, runtime) => {
      const odd = ["$(PORT)", "$$(PORT)", "$$", "$", "a $5 b", "$(NO)", "'\"\\"];
      const code =
        "console.error(JSON.stringify([process.argv.slice(1), process.env.ODD, process.env.KEY])); process.exit(9)";
      const made = script(site, code);
      const secret = ["create", "secret", "generic", "hub", "--from-literal=token=$(PORT)"];
      await cluster.kubectl(["-n", site.namespace, ...secret]);
      const env = { ...made.env, ODD: "$$(PORT) $(PORT)", KEY: { secretKeyRef: { name: "hub", key: "token" } } };
      await runtime.ensure({ ...made, command: [...made.command, ...odd], env });
      const { message } = await exited(runtime);
      const [, said = ""] = /^exited with code 9: (.*)$/.exec(message) ?? [];
      assert.deepEqual(JSON.parse(said), [odd, "$$(PORT) $(PORT)", "$(PORT)"]);
    });
  });

  it("a Pod without a free device waits, and says for what", async () => {
    await scene(async (site, runtime) => {
      const pod = { ...needs, extended: { "amd.com/gpu": 1 } };
      await runtime.ensure(site.workload(0, [], { pod }));
      const { message, isStuck } = await pendingFor(runtime, "Unschedulable");
      assert.ok(isStuck);
      assert.match(
        message,
        /^no node takes its Pod: 0\/1 nodes are available: 1 Insufficient amd\.com\/gpu\. .*one SlotGroup\)$/,
      );
    });
  });

  it("a Pod without its Secret waits for it, and starts once it is there", async () => {
    await scene(async (site, runtime) => {
      const made = site.workload(0);
      await runtime.ensure({ ...made, env: { ...made.env, KEY: { secretKeyRef: { name: "later", key: "k" } } } });
      const { message } = await pendingFor(runtime, "NoSecret");
      assert.match(message, /secret "later" not found; create it$/);
      await cluster.kubectl(["-n", site.namespace, "create", "secret", "generic", "later", "--from-literal=k=v"]);
      await listening(runtime);
    });
  });

  it("an image that cannot be fetched ends the attempt with the registry's message", async () => {
    await scene(async (site, runtime) => {
      await runtime.ensure(site.workload(0, [], { image: "127.0.0.1:1/nobody/none:1" }));
      const { reason, message } = await exited(runtime);
      assert.equal(reason, "PullFailed");
      assert.match(message, /^the image 127\.0\.0\.1:1\/nobody\/none:1 could not be fetched \(.*connection refused/);
    });
  });

  it("an engine that takes more than its memory is killed, and its limit is named", async () => {
    await scene(async (site, runtime) => {
      const made = script(site, "const all = []; for (;;) all.push(Buffer.alloc(16e6, 1));");
      const { container } = made;
      assert.ok(container !== undefined);
      const limited = { ...made, container: { ...container, memoryBytes: 96 * 1024 ** 2 } };
      await runtime.ensure(limited);
      let exit = await exited(runtime);
      // A busy node may learn of the kernel's kill too late, and then tells of its signal alone.
      for (let more = 2; more > 0 && exit.signal === "SIGKILL"; more -= 1) {
        await runtime.remove("primary", undefined, { stopSeconds: 1 });
        await runtime.ensure(limited);
        exit = await exited(runtime);
      }
      const { reason, message } = exit;
      assert.equal(reason, "OOMKilled");
      assert.match(
        message,
        /^the kernel killed it: out of memory \(its limit is (96Mi|100663296) bytes, resources\.memoryBytes\)/,
      );
    });
  });

  it("runs at the Pod Security level restricted, which refuses device files of the node", async () => {
    await scene(async (site, runtime) => {
      const level = "pod-security.kubernetes.io/enforce=restricted";
      await cluster.kubectl(["label", "namespace", site.namespace, level]);
      await runtime.ensure(site.workload(0));
      await listening(runtime);
      await runtime.remove("primary", undefined, { stopSeconds: 1 });
      await runtime.ensure(site.workload(0, [], { devices: ["/dev/dri"] }));
      const { reason, message } = await exited(runtime);
      assert.equal(reason, "StartFailed");
      assert.match(
        message,
        /^the Pod Security level of namespace \S+ forbids its Pod: .*privileged.*resources\.extended/,
      );
    });
  });

  it("a Pod that somebody deletes counts as ended", async () => {
    await scene(async (site, runtime) => {
      await runtime.ensure(site.workload(0, ["--ignore-term"]));
      await listening(runtime);
      const deletion = ["delete", "pod", "berth-primary-main-0", "--grace-period=5", "--wait=false"];
      await cluster.kubectl(["-n", site.namespace, ...deletion]);
      assert.equal((await exited(runtime)).reason, "PodDeleted");
    });
  });
});
