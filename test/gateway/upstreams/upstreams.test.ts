import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { UpstreamMetrics } from "../../../src/gateway/upstreams/metrics.ts";
import type { Provider } from "../../../src/gateway/upstreams/provider.ts";
import { Upstreams, type UpstreamsOptions } from "../../../src/gateway/upstreams/upstreams.ts";
import { startProvider } from "../../doubles/provider.ts";
import { until } from "../../support/until.ts";
import { answerOf, ask, failureOf, secretKey, specOf } from "./fixture.ts";

interface OpenUpstreams extends AsyncDisposable {
  readonly upstreams: Upstreams;
  readonly problems: string[];
  readonly provider: (name: string) => Provider;
}

function openUpstreams(options: Partial<UpstreamsOptions> = {}): OpenUpstreams {
  const problems: string[] = [];
  const upstreams = new Upstreams({
    env: { ACME_KEY: secretKey },
    budget: new BufferBudget(1_000_000),
    onProblem: (upstream, message) => problems.push(`${upstream}: ${message}`),
    discoveryRetryMs: 5,
    ...options,
  });
  const provider = (name: string): Provider => upstreams.get(name) ?? assert.fail(`there is no ${name}`);
  return { upstreams, problems, provider, [Symbol.asyncDispose]: () => upstreams[Symbol.asyncDispose]() };
}

const refsOf = (upstreams: Upstreams): readonly string[] => [...upstreams.refs().keys()].toSorted();

describe("upstreams", () => {
  it("follow declarations, and keep unchanged providers as they are", async () => {
    await using double = await startProvider();
    await using open = openUpstreams();
    const { upstreams } = open;
    let changes = 0;
    using _watch = upstreams.watch(() => (changes += 1));
    const { baseUrl } = double;
    upstreams.update([
      { name: "a", spec: specOf({ baseUrl, models: [{ ref: "one", upstreamModel: "gpt-1" }] }) },
      { name: "b", spec: specOf({ baseUrl, models: [{ ref: "two" }] }) },
    ]);
    assert.deepEqual(refsOf(upstreams), ["one", "two"]);
    assert.deepEqual(upstreams.refs().get("one")?.providerModel, "gpt-1");
    const [a, b] = [open.provider("a"), open.provider("b")];
    upstreams.update([
      { name: "b", spec: specOf({ baseUrl, models: [{ ref: "three" }] }) },
      { name: "a", spec: specOf({ baseUrl, models: [{ ref: "one", upstreamModel: "gpt-1" }] }) },
    ]);
    assert.deepEqual(refsOf(upstreams), ["one", "three"]);
    assert.equal(open.provider("a"), a);
    assert.notEqual(open.provider("b"), b);
    upstreams.update([{ name: "b", spec: specOf({ baseUrl, models: [{ ref: "three" }] }) }]);
    assert.deepEqual([refsOf(upstreams), upstreams.get("a")], [["three"], undefined]);
    assert.equal(changes, 3);
    upstreams.update([{ name: "b", spec: specOf({ baseUrl, models: [{ ref: "three" }] }) }]);
    assert.equal(changes, 3, "nothing changed");
  });

  it("let a removed provider complete its requests", async () => {
    await using double = await startProvider({ tokenMs: 10 });
    await using open = openUpstreams();
    open.upstreams.update([{ name: "a", spec: specOf({ baseUrl: double.baseUrl }) }]);
    const asked = ask(open.provider("a"), { body: [Buffer.from('{"stream":true}')] });
    await until("it has begun", () => asked.head !== undefined);
    open.upstreams.update([]);
    assert.match(await answerOf(asked), /\[DONE\]/);
    await until("connections are closed", () => double.openConnections === 0);
  });

  it("end everything with the gateway, removed providers too", async () => {
    await using double = await startProvider();
    await using open = openUpstreams();
    double.fail({ kind: "hang" }, { kind: "hang" });
    open.upstreams.update([
      { name: "a", spec: specOf({ baseUrl: double.baseUrl }) },
      { name: "b", spec: specOf({ baseUrl: double.baseUrl }) },
    ]);
    const all = [ask(open.provider("a")), ask(open.provider("b"))] as const;
    await until("both are there", () => double.posts.length === 2);
    open.upstreams.update([{ name: "b", spec: specOf({ baseUrl: double.baseUrl }) }]);
    await open.upstreams[Symbol.asyncDispose]();
    for (const asked of all) assert.equal((await failureOf(asked)).message, "the gateway is stopping");
  });

  it("discover models in the background, with the key", async () => {
    await using double = await startProvider({ key: secretKey, models: ["m1", "m2"] });
    await using open = openUpstreams();
    const auth = { type: "bearer", valueFrom: { env: "ACME_KEY" } };
    const spec = specOf({ baseUrl: double.baseUrl, auth, models: [{ ref: "own" }], discover: { prefix: "acme/" } });
    open.upstreams.update([{ name: "acme", spec }]);
    assert.deepEqual(refsOf(open.upstreams), ["own"], "nobody waits for the list");
    assert.equal(open.upstreams.hasTried, false);
    await until("the list is there", () => open.upstreams.hasTried);
    assert.deepEqual(refsOf(open.upstreams), ["acme/m1", "acme/m2", "own"]);
    assert.equal(open.upstreams.refs().get("acme/m1")?.providerModel, "m1");
    assert.deepEqual(
      double.asked.map(({ method, path }) => `${method} ${path}`),
      ["GET /v1/models"],
    );
  });

  it("try again when the list cannot be had, and say why once", async () => {
    await using double = await startProvider();
    await using open = openUpstreams();
    double.models = { kind: "answer", status: 500 };
    open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl: double.baseUrl, discover: {} }) }]);
    await until("it was asked three times", () => double.asked.length >= 3);
    assert.deepEqual(open.problems, ["acme: the provider answered 500 when asked for its models"]);
    assert.equal(open.upstreams.views()[0]?.problems.discovery, "the provider answered 500 when asked for its models");
    double.models = ["m1"];
    await until("the list is there", () => open.upstreams.refs().has("m1"));
    assert.equal(open.upstreams.views()[0]?.problems.discovery, undefined);
  });

  it("list no model whose name holds the key", async () => {
    await using double = await startProvider({ key: secretKey, models: [`x-${secretKey}`, "m1"] });
    const kept: string[] = [];
    const discovered = {
      get: () => [],
      keep: (_upstream: string, _baseUrl: string, models: readonly string[]) => void kept.push(...models),
    };
    await using open = openUpstreams({ discovered });
    const auth = { type: "bearer", valueFrom: { env: "ACME_KEY" } };
    open.upstreams.update([
      { name: "acme", spec: specOf({ baseUrl: double.baseUrl, auth, models: [], discover: {} }) },
    ]);
    await until("the list is there", () => open.upstreams.hasTried);
    assert.deepEqual(refsOf(open.upstreams), ["m1"]);
    assert.deepEqual(kept, [`x-${"*".repeat(secretKey.length)}`, "m1"]);
  });

  it("repeat no part of an answer that is not a list of models", async () => {
    await using double = await startProvider();
    await using open = openUpstreams();
    double.models = { kind: "answer", status: 200, body: secretKey };
    open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl: double.baseUrl, discover: {} }) }]);
    await until("it has looked", () => open.upstreams.hasTried);
    assert.deepEqual(open.problems, ["acme: the provider's list of models is not JSON"]);
  });

  it("ask a removed provider for its models no more", async () => {
    await using dropped = await startProvider();
    await using other = await startProvider();
    await using open = openUpstreams();
    for (const double of [dropped, other]) double.models = { kind: "answer", status: 500 };
    const [a, b] = [dropped, other].map(({ baseUrl }, index) => ({
      name: String(index),
      spec: specOf({ baseUrl, discover: {} }),
    }));
    open.upstreams.update([a ?? assert.fail(), b ?? assert.fail()]);
    await until("both were asked", () => dropped.asked.length > 0 && other.asked.length > 0);
    open.upstreams.update([b ?? assert.fail()]);
    const before = dropped.asked.length;
    const then = other.asked.length;
    await until("the other one is asked on", () => other.asked.length >= then + 3);
    assert.ok(dropped.asked.length <= before + 1);
  });

  it("keep the last good list while a provider is edited, and drop it for another provider", async () => {
    await using first = await startProvider({ models: ["m1"] });
    await using second = await startProvider({ models: ["m2"] });
    await using open = openUpstreams();
    const update = (baseUrl: string, retries: number): void =>
      open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl, retries, models: [], discover: {} }) }]);
    update(first.baseUrl, 1);
    await until("the list is there", () => open.upstreams.refs().has("m1"));
    first.models = { kind: "hang" };
    update(first.baseUrl, 2);
    assert.deepEqual(refsOf(open.upstreams), ["m1"]);
    update(second.baseUrl, 2);
    assert.deepEqual(refsOf(open.upstreams), []);
    await until("the other list is there", () => open.upstreams.refs().has("m2"));
  });

  it("begin with the stored list, store each new list, and store no doubtful list", async () => {
    await using double = await startProvider();
    double.models = { kind: "hang" };
    const kept: string[] = [];
    const discovered = {
      get: (upstream: string, baseUrl: string) => (baseUrl === double.baseUrl ? [`${upstream}-1`] : []),
      keep: (upstream: string, baseUrl: string, models: readonly string[]) =>
        void kept.push(`${upstream} ${baseUrl} ${models.join(",")}`),
    };
    await using open = openUpstreams({ discovered });
    open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl: double.baseUrl, models: [], discover: {} }) }]);
    assert.deepEqual([refsOf(open.upstreams), open.upstreams.hasTried], [["acme-1"], false]);
    await until("it is asked", () => double.asked.length === 1);
    double.asked[0]?.response.end('{"data":[]}');
    await until("it has heard", () => open.upstreams.hasTried);
    assert.deepEqual([refsOf(open.upstreams), kept], [["acme-1"], []], "an empty list may be a bad moment");
    double.models = ["m1"];
    open.upstreams.update([
      { name: "acme", spec: specOf({ baseUrl: double.baseUrl, retries: 2, models: [], discover: {} }) },
    ]);
    await until("the list is there", () => open.upstreams.refs().has("m1"));
    assert.deepEqual(kept, [`acme ${double.baseUrl} m1`]);
  });

  it("report a problem for a person once, and not after it is mended", async () => {
    await using double = await startProvider({ key: secretKey });
    const env: NodeJS.ProcessEnv = {};
    await using open = openUpstreams({ env });
    const auth = { type: "bearer", valueFrom: { env: "ACME_KEY" } };
    open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl: double.baseUrl, auth }) }]);
    await failureOf(ask(open.provider("acme")));
    await failureOf(ask(open.provider("acme")));
    assert.deepEqual(open.problems, ["acme: the environment variable ACME_KEY is not set"]);
    env["ACME_KEY"] = secretKey;
    await answerOf(ask(open.provider("acme")));
    assert.equal(open.upstreams.views()[0]?.problems.key, undefined);
  });
});

describe("metrics of upstreams", () => {
  it("count attempts and outcomes, and show requests in flight", async () => {
    await using double = await startProvider();
    const registry = new MetricPage();
    const metrics: UpstreamMetrics = new UpstreamMetrics(registry, () => open.upstreams.views());
    await using open = openUpstreams({
      onOutcome: (upstream, outcome, seconds) => metrics.outcome(upstream, outcome, seconds),
      onRetry: (upstream) => metrics.retry(upstream),
    });
    open.upstreams.update([{ name: "acme", spec: specOf({ baseUrl: double.baseUrl, maxConcurrent: 1 }) }]);
    double.fail({ kind: "answer", status: 503 }, { kind: "answer", status: 200 }, { kind: "hang" });
    await answerOf(ask(open.provider("acme")));
    const all = [ask(open.provider("acme")), ask(open.provider("acme"))];
    await until("one hangs", () => double.posts.length === 3);
    const page = String((await registry.render()).body);
    const lines = page.split("\n").filter((line) => line.startsWith("berth_") && !line.includes("_duration_"));
    assert.deepEqual(lines, [
      'berth_upstream_requests_total{upstream="acme",outcome="503"} 1',
      'berth_upstream_requests_total{upstream="acme",outcome="200"} 1',
      'berth_upstream_retries_total{upstream="acme"} 1',
      'berth_upstream_requests_in_flight{upstream="acme"} 1',
      'berth_upstream_requests_queued{upstream="acme"} 1',
      'berth_upstream_models_paused{upstream="acme"} 0',
      'berth_upstream_models{upstream="acme"} 1',
      'berth_upstream_circuit{upstream="acme",state="closed"} 1',
      'berth_upstream_circuit{upstream="acme",state="open"} 0',
      'berth_upstream_circuit{upstream="acme",state="halfOpen"} 0',
    ]);
    assert.match(page, /^berth_upstream_request_duration_seconds_count\{upstream="acme"\} 2$/m);
    for (const { exchange } of all) exchange.abort();
  });
});
