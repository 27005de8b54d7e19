import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, it } from "node:test";
import { runtimeKinds } from "../../src/api/names.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { PodsSite } from "./pods-site.ts";
import { custom } from "./site.ts";
import { outlivesBoot } from "../../src/api/engine-identity.ts";
import { traitsOfKind } from "../doubles/runtime-kinds.ts";

const image = { engine: "custom", image: "x:1", model: { default: "m" } } as const;
const pod = { ...image, runtime: "kubernetes" } as const;

describe("a runtime that only the registry knows", () => {
  it("runs a slot from start to end, with a restart, an adoption and no leased port", async () => {
    await using site = await new PodsSite().run({ a: pod });
    const { runtime, processes, port } = site.slot("a").status;
    assert.deepEqual([site.state("a"), runtime, port], ["ready", "kubernetes", 8080]);
    assert.deepEqual(
      processes.map(({ podName, pid, host }) => [typeof podName, pid, host.startsWith("10.")]),
      [["string", undefined, true]],
    );
    assert.deepEqual([site.ports.leased, site.runtime.deeds], [[], []]);
    assert.deepEqual(site.states("a"), ["pulling", "starting", "warming", "ready"], "an image may be fetched first");
    const { revision } = site.slot("a");
    await site.start();
    await site.advance(20);
    assert.deepEqual([site.slot("a").revision, site.pods.deeds.length], [revision, 1], "the next operator adopts it");
    site.pods.kill("a");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.slot("a").status.restarts], ["ready", 1]);
    site.source.save("a", { ...pod, enabled: false });
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.pods.running("a")], ["offline", []]);
  });

  it("counts no restart while an engine's image does not come, and the first one after it has", async () => {
    await using site = new PodsSite();
    Object.assign(site.pods.manner("a"), { cannotStart: true, refusedFor: "PullFailed" });
    await site.run({ a: pod }, 30);
    const counts = (): readonly unknown[] => [site.state("a"), site.slot("a").status.restarts];
    assert.ok(site.slot("a").status.failures > 2);
    assert.deepEqual(counts(), ["error", 0]);
    site.pods.manner("a").cannotStart = false;
    await site.advance(60);
    assert.deepEqual(counts(), ["ready", 0]);
    site.pods.kill("a");
    await site.advance(60);
    assert.deepEqual(counts(), ["ready", 1]);
  });

  it("keeps the place of an engine that it cannot stop now: the slot does not start elsewhere beside it", async () => {
    await using site = await new PodsSite().run({ a: pod });
    const remove = site.pods.remove.bind(site.pods);
    site.pods.remove = async (...process) => {
      site.isUp = false;
      await remove(...process);
    };
    site.source.save("a", custom({ runtime: "process" }));
    await site.advance(20);
    assert.deepEqual([site.pods.running("a"), site.runtime.deeds], [["main"], []]);
    site.pods.remove = remove;
    site.isUp = true;
    await site.advance(20);
    assert.deepEqual([site.pods.running("a"), site.runtime.running("a"), site.state("a")], [[], ["main"], "ready"]);
  });

  it("publishes the digest that its engine's machine tells of an image without one", async () => {
    await using site = new PodsSite();
    const imageDigest = `sha256:${"ab".repeat(32)}`;
    const observe = site.pods.observe.bind(site.pods);
    site.pods.observe = async (slot) => (await observe(slot)).map((seen) => ({ ...seen, imageDigest }));
    await site.run({ a: pod });
    assert.deepEqual([site.slot("a").status.image, site.slot("a").status.imageDigest], ["x:1", imageDigest]);
    assert.deepEqual([site.pods.deeds.length, site.lock], [1, {}], "nothing is restarted or pinned for it");
  });

  it("is never chosen by auto where only manifests name it, also while it runs another slot", async () => {
    await using site = await new PodsSite().run({ named: pod });
    assert.deepEqual([site.state("named"), site.pods.deeds.length], ["ready", 1]);
    site.source.save("a", { ...image, command: ["engine"] });
    site.source.save("b", image);
    await site.advance(5);
    const { runtime } = site.slot("a").status.decisions;
    assert.deepEqual(runtime, { value: "process", reason: "no container engine answers" });
    assert.deepEqual([site.state("a"), site.condition("b", "Stalled")], ["ready", "True/NoRuntime"]);
    assert.deepEqual([site.pods.running("a"), site.pods.running("b"), site.pods.deeds.length], [[], [], 1]);
  });

  it("is chosen by auto once it answers and there is an image, where the store is in the cluster", async () => {
    await using site = await new PodsSite({ isNamedOnly: false }).run({ a: { ...image, load: "onDemand" } }, 2);
    const chosen = (): unknown => site.slot("a").status.decisions["runtime"];
    assert.deepEqual([chosen(), site.condition("a", "Stalled")], [undefined, "True/NoRuntime"]);
    assert.ok(site.runtimes instanceof RuntimeSet);
    await site.runtimes.need("kubernetes");
    await site.controller.resync();
    await site.advance(2);
    await site.request("a", "load");
    await site.advance(5);
    assert.deepEqual(chosen(), { value: "kubernetes", reason: "a cluster answers and there is an image" });
  });

  it("counts no idle time before its program has begun, however long that is waited for", async () => {
    await using site = new PodsSite();
    site.pods.manner("a").pending = { reason: "Unschedulable", message: "no node takes its Pod", isStuck: true };
    await site.run({ a: { ...pod, load: "onDemand", idleSeconds: 60 } });
    await site.request("a", "load");
    await site.advance(300);
    assert.deepEqual(
      [site.condition("a", "Ready"), site.pods.deeds.map(({ did }) => did)],
      ["False/Unschedulable", ["start"]],
      "its Pod stays while a node is added",
    );
    site.pods.manner("a").pending = undefined;
    await site.after(50, "a", "ready");
    await site.after(60, "a", "offline");
  });
});

it("no file of the operator names a kind of runtime, or asks for what one kind has", async () => {
  const kinds = runtimeKinds.filter((kind) => kind !== "auto");
  const names = new RegExp(`["'\`](${[...kinds, "podman"].join("|")})["'\`]|\\.pod\\b|\\.inCluster\\b`);
  const folder = fileURLToPath(new URL("../../src/operator", import.meta.url));
  const found: string[] = [];
  for await (const file of glob("**/*.ts", { cwd: folder })) {
    const lines = readFileSync(`${folder}/${file}`, "utf8").split("\n");
    for (const [index, line] of lines.entries())
      if (names.test(line)) found.push(`${file}:${index + 1}: ${line.trim()}`);
  }
  assert.deepEqual(found, []);
});

it("a gateway, which knows no runtime, knows of each engine whether it outlives a boot: a Pod does", () => {
  const names = { pid: { pid: 1 }, containerId: { containerId: "c" }, podName: { podName: "p" } } as const;
  for (const { kind, identity } of Object.values(traitsOfKind))
    assert.equal(outlivesBoot(names[identity]), kind === "kubernetes", kind);
  assert.equal(outlivesBoot({}), false, "an engine that was published without a name");
});
