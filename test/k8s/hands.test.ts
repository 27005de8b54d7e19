import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { defaultAccount } from "../support/kube/control-plane.ts";
import { engineImage } from "../support/kube/images.ts";
import { sharedCluster } from "../support/kube/shared.ts";
import { openSlotSite, type SlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

/** What people do with Slots whose engines are Pods of a real node. */
const cluster = await sharedCluster();
after(async () => await cluster[Symbol.asyncDispose]());

const spec = { engine: "custom", image: engineImage, model: { default: "m" }, stopSeconds: 2 };

interface Hands {
  readonly at: SlotSite;
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
    chat: async (model) => (await chat(berth, model))[0],
  });
}

/** Each in a namespace of its own; they wait most of the time. */
describe("people and tools", { concurrency: 3, timeout: 900_000 }, () => {
  it("edit a Slot while its Pod is made, delete it and apply it again at once, and rename it: it has one Pod each time", async () => {
    await scene(async ({ at, is, pods, kubectl, chat: ask }) => {
      const aliases = ["gpt-4o"];
      for (let edit = 0; edit < 6; edit += 1)
        await at.apply("chat", { ...spec, aliases, env: { MARK: `edit-${edit}` } });
      await kubectl("wait", "--for=condition=Ready", "slots.berth.dev/chat", "--timeout=180s");
      await is("chat", "ready", '"observedGeneration":6');
      const [before = "", ...more] = await pods("chat");
      assert.match(before, /^berth-chat-main-0 \S+ edit-5$/);
      assert.deepEqual(more, []);
      assert.equal(await ask("chat"), 200);

      await kubectl("delete", "slots.berth.dev/chat", "--wait=false");
      await until("it can be applied anew", async () => {
        await at.apply("chat", { ...spec, aliases, env: { MARK: "anew" } });
        return (await kubectl("get", "slots.berth.dev/chat", "-o", "jsonpath={.metadata.deletionTimestamp}")) === "";
      });
      await is("chat", "ready");
      const [anew, ...others] = await pods("chat");
      assert.match(anew ?? "", / anew$/);
      assert.deepEqual([anew === before, others], [false, []]);
      const owner = "jsonpath={.metadata.ownerReferences[0].uid}";
      assert.equal(
        await kubectl("get", "pod", "berth-chat-main-0", "-o", owner),
        await kubectl("get", "slots.berth.dev/chat", "-o", "jsonpath={.metadata.uid}"),
      );

      // As Flux does: the new name is applied first, and then the old one is pruned.
      await at.apply("talk", { ...spec, aliases });
      await kubectl("delete", "slots.berth.dev/chat", "--timeout=180s");
      await is("talk", "ready");
      assert.deepEqual(await pods("chat"), []);
      await until("the alias follows the name", async () => (await ask("gpt-4o")) === 200);
    });
  });

  it("delete a Slot in the foreground, as Argo CD does, or its Pods as orphans, or its namespace: its Pod goes with it", async () => {
    await scene(async ({ at, is, pods, kubectl }) => {
      for (const cascade of ["foreground", "orphan"]) {
        await at.apply("chat", spec);
        await is("chat", "ready");
        await kubectl("delete", "slots.berth.dev/chat", `--cascade=${cascade}`, "--timeout=180s");
        await until("its Pod is gone", async () => (await pods("chat")).length === 0);
      }
      await at.apply("chat", spec);
      await is("chat", "ready");
      await cluster.kubectl(["delete", "namespace", at.namespace, "--timeout=180s"]);
    });
  });

  it("learn of a quota that is full, and the Pod is let in once there is room", async () => {
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
});

it(
  "a drained node leaves a Slot that says what it waits for, and goes on once the node is back",
  { timeout: 900_000 },
  async () => {
    await scene(async ({ at, is, pods, chat: ask }) => {
      await at.apply("chat", spec);
      await is("chat", "ready");
      const [before] = await pods("chat");
      await cluster.kubectl(["drain", "node1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s"]);
      await is("chat", "error", "Unschedulable");
      assert.match(JSON.stringify(await at.status("chat")), /1 node\(s\) were unschedulable/);
      await cluster.kubectl(["uncordon", "node1"]);
      await is("chat", "ready");
      assert.notEqual((await pods("chat"))[0], before);
      assert.equal(await ask("chat"), 200);
    });
  },
);
