import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, it } from "node:test";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { defaultAccount } from "../support/kube/control-plane.ts";
import { engineImage } from "../support/kube/images.ts";
import { sharedCluster } from "../support/kube/shared.ts";
import { kubeProgram } from "../support/kube/programs.ts";
import { openSlotSite, type SlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

/** What people do with Slots whose engines are Pods of a real node. */
const cluster = await sharedCluster();
after(async () => await cluster[Symbol.asyncDispose]());

const spec = { engine: "custom", image: engineImage, model: { default: "m" }, stopSeconds: 2 };

interface Hands {
  readonly at: SlotSite;
  readonly berth: RunningBerth;
  kubectl: (...args: readonly string[]) => Promise<string>;
  /** Waits for the state. */
  is: (slot: string, state: string, reason?: string) => Promise<void>;
  /** The slot's Pods, as `NAME UID VALUE` where VALUE is that of the variable MARK. */
  pods: (slot: string) => Promise<readonly string[]>;
  chat: (model: string) => Promise<number>;
}

async function scene(run: (hands: Hands) => Promise<void>): Promise<void> {
  await using at = await openSlotSite(cluster);
  await until("its service account", () => cluster.ask(defaultAccount(at.namespace)));
  await using berth = await startBerth({ env: { ...at.env, SVC_RUNTIME: "kubernetes" } });
  const kubectl = (...args: readonly string[]): Promise<string> => cluster.kubectl(["-n", at.namespace, ...args]);
  const value = '{.spec.containers[0].env[?(@.name=="MARK")].value}';
  await run({
    at,
    berth,
    kubectl,
    async is(slot, state, reason = "") {
      let last: unknown;
      await until(`${slot} is ${state} ${reason}`, async () => {
        last = await at.status(slot).catch(String);
        const text = JSON.stringify(last);
        return text.includes(`"state":"${state}"`) && text.includes(reason);
      }).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${JSON.stringify(last)}\n${berth.log().slice(-3000)}`);
      });
    },
    async pods(slot) {
      const path = `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} ${value}{"\\n"}{end}`;
      const said = await kubectl("get", "pods", "-l", `berth.dev/slot=${slot}`, "-o", path);
      return said.split("\n").filter((line) => line !== "");
    },
    async chat(model) {
      const answer = await fetch(`${berth.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] }),
      });
      await answer.text();
      return answer.status;
    },
  });
}

it("a Slot that is edited while its Pod is made has one Pod, by the last edit", { timeout: 900_000 }, async () => {
  await scene(async ({ at, is, pods, kubectl, chat }) => {
    for (let edit = 0; edit < 6; edit += 1) await at.apply("chat", { ...spec, env: { MARK: `edit-${edit}` } });
    await kubectl("wait", "--for=condition=Ready", "slots.berth.dev/chat", "--timeout=180s");
    await is("chat", "ready", '"observedGeneration":6');
    const [pod, ...more] = await pods("chat");
    assert.match(pod ?? "", /^berth-chat-main-0 \S+ edit-5$/);
    assert.deepEqual(more, []);
    assert.equal(await chat("chat"), 200);
  });
});

it(
  "a Slot that is deleted and applied again at once, and one that is renamed, have a Pod each",
  { timeout: 900_000 },
  async () => {
    await scene(async ({ at, is, pods, kubectl, chat }) => {
      await at.apply("chat", { ...spec, aliases: ["gpt-4o"] });
      await is("chat", "ready");
      const [before] = await pods("chat");
      await kubectl("delete", "slots.berth.dev/chat", "--wait=false");
      await until("it can be applied anew", async () => {
        await at.apply("chat", { ...spec, aliases: ["gpt-4o"], env: { MARK: "anew" } });
        const uid = await kubectl("get", "slots.berth.dev/chat", "-o", "jsonpath={.metadata.deletionTimestamp}");
        return uid === "";
      });
      await is("chat", "ready");
      const [anew, ...more] = await pods("chat");
      assert.match(anew ?? "", / anew$/);
      assert.notEqual(anew, before);
      assert.deepEqual(more, []);
      const owner = await kubectl(
        "get",
        "pod",
        "berth-chat-main-0",
        "-o",
        "jsonpath={.metadata.ownerReferences[0].uid}",
      );
      assert.equal(owner, await kubectl("get", "slots.berth.dev/chat", "-o", "jsonpath={.metadata.uid}"));
      // As Flux does: the new name is applied first, and then the old one is pruned.
      await at.apply("talk", { ...spec, aliases: ["gpt-4o"] });
      await kubectl("delete", "slots.berth.dev/chat", "--timeout=180s");
      await is("talk", "ready");
      assert.deepEqual(await pods("chat"), []);
      await until("the alias follows the name", async () => (await chat("gpt-4o")) === 200);
    });
  },
);

it(
  "a drained node leaves a Slot that says what it waits for, and goes on once the node is back",
  { timeout: 900_000 },
  async () => {
    await scene(async ({ at, is, pods, chat }) => {
      await at.apply("chat", spec);
      await is("chat", "ready");
      const [before] = await pods("chat");
      await cluster.kubectl(["drain", "node1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s"]);
      await is("chat", "error", "Unschedulable");
      assert.match(JSON.stringify(await at.status("chat")), /1 node\(s\) were unschedulable/);
      await cluster.kubectl(["uncordon", "node1"]);
      await is("chat", "ready");
      assert.notEqual((await pods("chat"))[0], before);
      assert.equal(await chat("chat"), 200);
    });
  },
);

it("`kubectl get --watch` shows a Slot that is paused by its spec and goes on", { timeout: 900_000 }, async () => {
  await scene(async ({ at, is, pods, kubectl, chat }) => {
    await at.apply("chat", spec);
    await is("chat", "ready");
    const config = [`--kubeconfig=${cluster.kubeconfig}`, "-n", at.namespace];
    const kubectlWatch = spawn(
      kubeProgram("kubectl"),
      [...config, "get", "slots.berth.dev", "--watch", "--no-headers"],
      {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, HOME: cluster.directory },
      },
    );
    try {
      const shown: string[] = [];
      createInterface(kubectlWatch.stdout).on("line", (line) => shown.push(line.split(/ +/).slice(0, 3).join(" ")));
      await until("it shows the Slot", () => Promise.resolve(shown.includes("chat ready True")));
      const enable = async (enabled: boolean): Promise<string> =>
        await kubectl("patch", "slots.berth.dev/chat", "--type=merge", "-p", JSON.stringify({ spec: { enabled } }));
      await enable(false);
      await until("it shows the pause", () => Promise.resolve(shown.at(-1)?.startsWith("chat offline ") === true));
      await until("its Pod is gone", async () => (await pods("chat")).length === 0);
      assert.equal(await chat("chat"), 503);
      const paused = shown.length;
      await enable(true);
      await until("it shows it ready", () => Promise.resolve(shown.slice(paused).includes("chat ready True")));
      assert.equal(await chat("chat"), 200);
      assert.ok(
        shown.slice(paused).some((line) => /^chat (starting|warming) /.test(line)),
        shown.join("; "),
      );
    } finally {
      kubectlWatch.kill();
    }
  });
});

it("a Slot that is deleted in the foreground, as Argo CD does, goes with its Pod", { timeout: 900_000 }, async () => {
  await scene(async ({ at, is, pods, kubectl }) => {
    await at.apply("chat", spec);
    await is("chat", "ready");
    await kubectl("delete", "slots.berth.dev/chat", "--cascade=foreground", "--timeout=180s");
    await until("its Pod is gone", async () => (await pods("chat")).length === 0);
    await at.apply("chat", spec);
    await is("chat", "ready");
    await kubectl("delete", "slots.berth.dev/chat", "--cascade=orphan", "--timeout=180s");
    await until("its Pod is gone, too", async () => (await pods("chat")).length === 0);
  });
});

it("a namespace with running Pods is deleted", { timeout: 900_000 }, async () => {
  await scene(async ({ at, is }) => {
    await at.apply("chat", spec);
    await is("chat", "ready");
    await cluster.kubectl(["delete", "namespace", at.namespace, "--timeout=180s"]);
  });
});

it("a quota that is full says so, and lets the Pod in once there is room", { timeout: 900_000 }, async () => {
  await scene(async ({ at, is, kubectl }) => {
    await kubectl("create", "quota", "none", "--hard=pods=0");
    await until(
      "the quota counts",
      async () => (await kubectl("get", "quota", "none", "-o", "jsonpath={.status.hard.pods}")) === "0",
    );
    await at.apply("chat", spec);
    await is("chat", "error", "exceeded quota: none");
    await kubectl("patch", "quota", "none", "-p", '{"spec":{"hard":{"pods":"2"}}}');
    await is("chat", "ready");
  });
});
