import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openApiClient, type ApiClient } from "../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../src/kubernetes/kubeconfig.ts";
import { ListWatch } from "../../src/kubernetes/list-watch.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startFaultProxy, type FaultProxy } from "../support/kube/fault-proxy.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { until } from "../support/until.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

interface Follower extends AsyncDisposable {
  readonly proxy: FaultProxy;
  readonly watch: ListWatch;
  readonly client: ApiClient;
  readonly errors: unknown[];
  readonly path: string;
  /** The present value of each ConfigMap, as the follower was told of it. */
  readonly seen: ReadonlyMap<string, string>;
  write(name: string, value: string): Promise<void>;
  remove(name: string): Promise<void>;
}

/** What a controller puts into each namespace. */
const given = "kube-root-ca.crt";

/** Follows the ConfigMaps of a namespace of its own through a proxy; writes go straight to the API server. */
async function follower(onTold: (names: readonly string[]) => void = () => undefined): Promise<Follower> {
  await using stack = new AsyncDisposableStack();
  const namespace = await plane.namespace();
  const proxy = stack.use(await startFaultProxy(plane, namespace));
  const client = stack.use(openApiClient(await readKubeconfig({ KUBECONFIG: proxy.kubeconfig })));
  const direct = stack.use(openApiClient(await readKubeconfig({ KUBECONFIG: plane.kubeconfig })));
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const seen = new Map<string, string>();
  const errors: unknown[] = [];
  const watch = stack.use(
    ListWatch.start({
      client,
      path,
      onError: (error) => errors.push(error),
      onChange: (names) => {
        for (const name of names.filter((each) => each !== given)) {
          const data = watch.get(name)?.value["data"];
          if (isRecord(data)) seen.set(name, String(data["value"]));
          else seen.delete(name);
        }
        onTold(names);
      },
    }),
  );
  await watch.synced();
  await until("the watch is open", () => watch.isConnected && watch.get(given));
  const owned = stack.move();
  return {
    proxy,
    watch,
    client,
    errors,
    path,
    seen,
    async write(name, value) {
      const query = { fieldManager: "test", force: true };
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { value } };
      const contentType = "application/apply-patch+yaml";
      await direct.request("PATCH", `${path}/${name}`, { query, body, contentType });
    },
    async remove(name) {
      await direct.request("DELETE", `${path}/${name}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("a list-watch on a real API server", { concurrency: true }, () => {
  it("lists by pages, then gets each change by the watch without another list", async () => {
    await using follow = await follower();
    const { watch, seen } = follow;
    const { lists } = watch.counts;
    for (const value of ["1", "2", "3"]) await follow.write("a", value);
    await until("the last value", () => seen.get("a") === "3");
    await follow.remove("a");
    await until("it is gone", () => !seen.has("a"));
    assert.equal(watch.counts.lists, lists);
    for (let index = 0; index < 620; index += 1) await follow.write(`m${index}`, "x");
    await until("all of them", () => seen.size === 620);
    assert.equal(watch.counts.lists, lists);
    await watch.resync();
    assert.equal(watch.counts.lists, lists + 2, "two pages of at most 500");
    assert.equal(watch.values().length, 621);
  });

  it("continues from the last version when each watch is dropped, and never lists again", async () => {
    await using follow = await follower();
    const { lists } = follow.watch.counts;
    for (const value of ["1", "2", "3", "4", "5"]) {
      follow.proxy.dropWatches();
      await follow.write("a", value);
      await until("the value", () => follow.seen.get("a") === value);
    }
    assert.equal(follow.watch.counts.lists, lists);
    assert.ok(follow.watch.counts.watches > 5);
  });

  it("lists again when it is asked to be current only while no watch follows", async () => {
    await using follow = await follower();
    const { lists } = follow.watch.counts;
    await follow.watch.refresh();
    follow.proxy.dropWatches();
    await follow.watch.refresh();
    assert.equal(follow.watch.counts.lists, lists);
    follow.proxy.faults.refuse = (_method, path) => (path.includes("watch=true") ? 503 : undefined);
    follow.proxy.dropWatches();
    await until("nothing follows", () => !follow.watch.isFollowing, 30_000);
    await follow.write("a", "1");
    await follow.watch.refresh();
    assert.deepEqual([follow.watch.counts.lists, follow.seen.get("a")], [lists + 1, "1"]);
  });

  it("lists again when the versions since are no longer kept, and removes nothing that is there", async () => {
    const removed: string[] = [];
    await using follow = await follower((names) => {
      removed.push(...names.filter((name) => follow.watch.get(name) === undefined));
    });
    await follow.write("a", "1");
    await follow.write("b", "1");
    await until("both", () => follow.seen.size === 2);
    const { lists } = follow.watch.counts;
    let isOld = true;
    follow.proxy.faults.lines = (lines) => (isOld ? [...lines, JSON.stringify(expired)] : lines);
    await follow.write("a", "2");
    await until("another list", () => follow.watch.counts.lists > lists);
    isOld = false;
    await follow.write("b", "2");
    await until("both values", () => follow.seen.get("a") === "2" && follow.seen.get("b") === "2");
    assert.deepEqual(removed, []);
  });

  it("converges after a storm of refusals", async () => {
    await using follow = await follower();
    const statuses = [429, 500, 503];
    let count = 0;
    follow.proxy.faults.refuse = () => statuses[count++ % statuses.length];
    follow.proxy.dropWatches();
    await follow.write("a", "1");
    await until("some attempts", () => follow.errors.length >= 6);
    follow.proxy.faults.refuse = undefined;
    await until("the value", () => follow.seen.get("a") === "1");
  });

  it("believes no event that comes twice, late or out of order", async () => {
    await using follow = await follower();
    await follow.write("a", "1");
    await until("the value", () => follow.seen.get("a") === "1");
    const kept: string[] = [];
    follow.proxy.faults.lines = (lines) => {
      kept.push(...lines);
      // Everything so far again, the newest first.
      return kept.toReversed().concat(kept);
    };
    await follow.write("a", "2");
    await follow.write("a", "3");
    await until("the last value", () => follow.seen.get("a") === "3");
    await follow.remove("a");
    await until("it is gone", () => !follow.seen.has("a"));
    await follow.write("a", "4");
    await follow.write("end", "1");
    await until("the end", () => follow.seen.has("end"));
    assert.equal(follow.seen.get("a"), "4");
    assert.ok(follow.watch.counts.stale > 5);
  });

  it("counts errors of its handler, and continues", async () => {
    await using follow = await follower((names) => {
      if (names.includes("bad")) throw new Error("a fault of the handler's");
    });
    await follow.write("bad", "1");
    await follow.write("good", "1");
    await until("the next one", () => follow.seen.has("good"));
    assert.equal(follow.watch.counts.handlerErrors, 1);
    assert.equal(follow.watch.counts.errors, 0);
  });
});

const expired = { type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired", message: "too old" } };
