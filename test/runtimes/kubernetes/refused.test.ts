import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { podAnnotations, podLabels } from "../../../src/runtimes/kubernetes/pod-label.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { plain, podPath, podsOn, secretPath, start, withBearer } from "./fixture.ts";
import { llama, site, workload } from "./manifests.ts";

it("a Pod that the API server refuses leaves no Secret behind", async () => {
  await using pods = await podsOn(new ApiDouble());
  const { api, runtime } = pods;
  api.before = (method, path) => {
    if (method === "POST" && path.endsWith("/pods")) throw new ApiError(422, "Invalid", "spec.nodeName: not a name");
  };
  await runtime.ensure(withBearer);
  const [refused] = await runtime.observe("primary");
  assert.deepEqual([refused?.phase, refused?.exit?.reason], ["exited", "StartFailed"]);
  assert.ok(api.seen.some((each) => /^POST .*\/secrets$/.test(each)));
  assert.equal(api.get(secretPath), undefined);
});

it("a Secret of its bearer that does not exist yet is named, and is no fault of the workload", async () => {
  await using pods = await podsOn(new ApiDouble());
  const { api, runtime } = pods;
  const given = { ...withBearer, env: { LLAMA_API_KEY: { secretKeyRef: { name: "keys", key: "primary" } } } };
  await runtime.ensure(given);
  const [refused] = await runtime.observe("primary");
  const message = "env.LLAMA_API_KEY: the Secret keys has no key primary, or does not exist";
  assert.deepEqual([refused?.exit?.reason, refused?.exit?.message], ["NoSecret", message]);
  const primary = Buffer.from("b3arer").toString("base64");
  api.put("/api/v1/namespaces/berth/secrets/keys", { data: { primary } });
  await runtime.ensure(given);
  assert.ok(api.get(podPath) !== undefined);
});

it("a file outside of the installation's directory reaches no Pod", async () => {
  const secrets = { below: "/etc/berth/secrets", never: [] };
  await using pods = await podsOn(new ApiDouble(), { secrets });
  await pods.runtime.ensure({ ...plain, env: { KEY: { file: "/etc/hostname" } } });
  const [refused] = await pods.runtime.observe("primary");
  const message = "env.KEY: its file cannot be read: only files below /etc/berth/secrets are read (SVC_SECRETS_DIR)";
  assert.deepEqual([refused?.exit?.reason, refused?.exit?.message], ["StartFailed", message]);
  assert.ok(!pods.api.seen.some((each) => each.startsWith("POST")));
});

it("a Pod whose container the kubelet has started again after a boot is taken over as another start, also where that is seen late", async () => {
  const api = new ApiDouble();
  const labels = podLabels(workload, site.instance);
  const annotations = podAnnotations(workload, { hasBearer: false, startedAt: new Date(0) });
  const identity = { name: "berth-primary-main-0", uid: "1", creationTimestamp: "2026-11-23T00:00:00Z" };
  const lost = { exitCode: 255, reason: "Unknown" };
  const again = (restartCount: number, startedAt: string, { state = {}, terminated = lost } = {}): void => {
    const running = { running: { startedAt }, ...state };
    const engine = { name: "engine", restartCount, ready: true, started: true, state: running };
    const lastState = { terminated: { ...terminated, finishedAt: startedAt } };
    const status = { podIP: "10.42.0.9", phase: "Running", containerStatuses: [{ ...engine, lastState }] };
    const spec = { nodeName: "nas", containers: [{ name: "engine", image: llama.image }] };
    api.put(podPath, { metadata: { ...identity, labels, annotations }, spec, status });
  };
  again(1, "2026-11-24T00:00:00Z");
  await using pods = await podsOn(api);
  const { runtime } = pods;
  const first = async () => (await runtime.observe("primary"))[0];
  const seen = async (): Promise<unknown> => {
    const { phase, host, startedAt, isListening, exit } = (await first()) ?? assert.fail("no Pod");
    return [phase, host, startedAt.toISOString(), isListening, exit?.reason];
  };
  const found = ["running", "10.42.0.9", "2026-11-24T00:00:00.000Z", true, undefined];
  assert.deepEqual(await seen(), found);
  await runtime.ensure(plain);
  assert.deepEqual(await seen(), found, "it is not replaced");
  // The Pod that was seen first was from before the boot: its container is gone, and then there again.
  again(1, "2026-11-24T00:00:00Z", { state: { running: undefined, terminated: lost } });
  await until("it does not listen", async () => (await first())?.isListening === false);
  assert.equal((await first())?.phase, "running", "the kubelet starts it again");
  again(2, "2026-11-24T00:01:00Z");
  await until("it listens", async () => (await first())?.isListening);
  assert.deepEqual(await seen(), ["running", "10.42.0.9", "2026-11-24T00:01:00.000Z", true, undefined]);
  again(3, "2026-11-24T00:02:00Z", { terminated: { exitCode: 1, reason: "Error" } });
  await until("its next end is an end", async () => (await first())?.phase === "exited");
});

it("a Pod that a request has caused is younger than the request, although the API server counts whole seconds", async () => {
  await using pods = await podsOn(new ApiDouble());
  const requestedAt = new Date();
  await start(pods, { creationTimestamp: `${requestedAt.toISOString().slice(0, 19)}Z` });
  assert.deepEqual(await pods.runtime.list(), ["primary"]);
  const [seen] = await pods.runtime.observe("primary");
  assert.ok(seen !== undefined && seen.startedAt >= requestedAt, `${seen?.startedAt.toISOString()}`);
});
