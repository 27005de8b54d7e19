import assert from "node:assert/strict";
import { it } from "node:test";
import { podLabels } from "../../../src/runtimes/kubernetes/pod-label.ts";
import { PodView } from "../../../src/runtimes/kubernetes/pod-view.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { workload } from "./manifests.ts";

const pods = "/api/v1/namespaces/berth/pods";

it("the Pods of a slot are those that bear its label now", async () => {
  using api = new ApiDouble();
  const view = new PodView({ client: api, instance: "home", onSlot: () => undefined, onAnswering: () => undefined });
  await view.synced(AbortSignal.timeout(60_000));
  const put = (name: string, slot: string): void =>
    api.put(`${pods}/${name}`, {
      metadata: {
        creationTimestamp: "2026-11-22T21:00:00Z",
        labels: podLabels({ ...workload, slot }, "home"),
        annotations: { "berth.dev/port": String(workload.port) },
      },
      spec: { containers: [{ name: "engine", image: "i" }] },
    });
  const names = (slot: string): readonly string[] => view.lastKnownOf(slot).map(({ metadata }) => metadata.name);
  put("one", "a");
  put("two", "a");
  put("three", "b");
  await until("all are seen", () => view.lastKnown().length === 3);
  assert.deepEqual([names("a"), names("b"), names("c")], [["one", "two"], ["three"], []]);
  put("two", "b");
  api.put(`${pods}/one`, undefined);
  await until("both changes are seen", () => names("a").length === 0);
  assert.deepEqual(names("b").toSorted(), ["three", "two"]);
  await view.close();
});
