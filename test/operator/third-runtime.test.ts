import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, it } from "node:test";
import { runtimeKinds } from "../../src/api/names.ts";
import { RuntimeUnavailable } from "../../src/runtimes/runtime-unavailable.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { siteWithPods } from "./pods-site.ts";
import { custom } from "./site.ts";

const image = { engine: "custom", image: "x:1", model: { default: "m" } } as const;

describe("a runtime that only the registry knows", () => {
  it("runs a slot from start to end, with a restart, an adoption and no leased port", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(5);
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
    assert.deepEqual([site.slot("a").revision, pods.deeds.length], [revision, 1], "the next operator adopts it");
    pods.kill("a");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.slot("a").status.restarts], ["ready", 1]);
    site.source.save("a", { ...image, runtime: "kubernetes", enabled: false });
    await site.advance(5);
    assert.deepEqual([site.state("a"), pods.running("a")], ["offline", []]);
  });

  it("counts no restart while an engine's image does not come, and the first one after it has", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    Object.assign(pods.manner("a"), { cannotStart: true, refusedFor: "PullFailed" });
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(30);
    const counts = (): readonly unknown[] => [site.state("a"), site.slot("a").status.restarts];
    assert.ok(site.slot("a").status.failures > 2);
    assert.deepEqual(counts(), ["error", 0]);
    pods.manner("a").cannotStart = false;
    await site.advance(60);
    assert.deepEqual(counts(), ["ready", 0]);
    pods.kill("a");
    await site.advance(60);
    assert.deepEqual(counts(), ["ready", 1]);
  });

  it("keeps its slot in service while it is unreachable, and starts nothing elsewhere meanwhile", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(5);
    const observe = pods.observe.bind(pods);
    pods.observe = async () => {
      throw new RuntimeUnavailable("the cluster does not answer");
    };
    Object.assign(pods, { isAnswering: () => false });
    await site.advance(5);
    assert.deepEqual(
      [site.state("a"), site.condition("a", "Ready"), site.condition("a", "Available")],
      ["ready", "False/RuntimeUnavailable", "True/Loaded"],
    );
    assert.equal(site.slot("a").plan.steps[0]?.reason, "the cluster does not answer; it must answer first");
    pods.observe = observe;
    Object.assign(pods, { isAnswering: () => true });
    await site.advance(5);
    assert.deepEqual([site.condition("a", "Ready"), site.runtime.deeds], ["True/Loaded", []]);
  });

  it("keeps the place of an engine that it cannot stop now: the slot does not start elsewhere beside it", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(5);
    const { observe, remove } = { observe: pods.observe.bind(pods), remove: pods.remove.bind(pods) };
    let isUp = true;
    const unlessDown = (): void => {
      if (!isUp) throw new RuntimeUnavailable("the cluster does not answer");
    };
    pods.observe = async (slot) => {
      unlessDown();
      return await observe(slot);
    };
    pods.remove = async () => {
      isUp = false;
      unlessDown();
    };
    Object.assign(pods, { isAnswering: () => isUp });
    site.source.save("a", custom({ runtime: "process" }));
    await site.advance(20);
    assert.deepEqual([pods.running("a"), site.runtime.deeds], [["main"], []]);
    pods.remove = remove;
    isUp = true;
    await site.advance(20);
    assert.deepEqual([pods.running("a"), site.runtime.running("a"), site.state("a")], [[], ["main"], "ready"]);
  });

  it("publishes the digest that its engine's machine tells of an image without one", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    const imageDigest = `sha256:${"ab".repeat(32)}`;
    const observe = pods.observe.bind(pods);
    pods.observe = async (slot) => (await observe(slot)).map((seen) => ({ ...seen, imageDigest }));
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(5);
    assert.deepEqual([site.slot("a").status.image, site.slot("a").status.imageDigest], ["x:1", imageDigest]);
    assert.deepEqual([pods.deeds.length, site.lock], [1, {}], "nothing is restarted or pinned for it");
  });

  for (const reason of ["Unauthorized", "ImageNotFound", "NoSecret"] as const)
    it(`starts a slot by itself once its Secret or image has come (${reason}), at most every five minutes`, async () => {
      const { site, pods } = siteWithPods();
      await using _site = site;
      Object.assign(pods.manner("a"), { cannotStart: true, refusedFor: reason });
      await site.start();
      site.source.save("a", { ...image, runtime: "kubernetes" });
      await site.advance(3600);
      assert.equal(site.condition("a", "Stalled"), undefined);
      assert.deepEqual(
        [site.condition("a", "Ready"), site.condition("a", "Reconciling")],
        [`False/${reason}`, "True/ProgressingWithRetry"],
      );
      const starts = pods.deeds.filter(({ did }) => did === "start").length;
      assert.ok(starts >= 18 && starts <= 24, `${starts} starts in an hour`);
      await site.start();
      Object.assign(pods.manner("a"), { cannotStart: false });
      await site.advance(310);
      assert.equal(site.state("a"), "ready");
    });

  it("counts no idle time before its program has begun, however long that is waited for", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    pods.manner("a").pending = { reason: "Unschedulable", message: "no node takes its Pod", isStuck: true };
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes", load: "onDemand", idleSeconds: 60 });
    await site.request("a", "load");
    await site.advance(300);
    assert.deepEqual(
      [site.condition("a", "Ready"), pods.deeds.map(({ did }) => did)],
      ["False/Unschedulable", ["start"]],
      "its Pod stays while a node is added",
    );
    pods.manner("a").pending = undefined;
    await site.advance(50);
    assert.equal(site.state("a"), "ready");
    await site.advance(60);
    assert.equal(site.state("a"), "offline");
  });

  it("leaves a slot whose program cannot be started to a person", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    pods.manner("a").cannotStart = true;
    await site.start();
    site.source.save("a", { ...image, runtime: "kubernetes" });
    await site.advance(3600);
    assert.equal(site.condition("a", "Stalled"), "True/StartFailed");
  });

  it("is never chosen by auto where only manifests name it, also while it runs another slot", async () => {
    const { site, pods } = siteWithPods();
    await using _site = site;
    await site.start();
    site.source.save("named", { ...image, runtime: "kubernetes" });
    await site.advance(5);
    assert.deepEqual([site.state("named"), pods.deeds.length], ["ready", 1]);
    site.source.save("a", { ...image, command: ["engine"] });
    site.source.save("b", image);
    await site.advance(5);
    assert.deepEqual(site.slot("a").status.decisions["runtime"], {
      value: "process",
      reason: "no container engine answers",
    });
    assert.deepEqual([site.state("a"), site.condition("b", "Stalled")], ["ready", "True/NoRuntime"]);
    assert.deepEqual([pods.running("a"), pods.running("b"), pods.deeds.length], [[], [], 1]);
  });

  it("is chosen by auto once it answers and there is an image, where the store is in the cluster", async () => {
    const { site } = siteWithPods({ isNamedOnly: false });
    await using _site = site;
    await site.start();
    site.source.save("a", { ...image, load: "onDemand" });
    await site.advance(2);
    assert.equal(site.slot("a").status.decisions["runtime"], undefined);
    assert.equal(site.condition("a", "Stalled"), "True/NoRuntime");
    assert.ok(site.runtimes instanceof RuntimeSet);
    await site.runtimes.need("kubernetes");
    await site.controller.resync();
    await site.advance(2);
    await site.request("a", "load");
    await site.advance(5);
    assert.deepEqual(site.slot("a").status.decisions["runtime"], {
      value: "kubernetes",
      reason: "a cluster answers and there is an image",
    });
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
