import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { UpstreamMetrics } from "../../../src/gateway/providers/metrics.ts";
import type { Provider } from "../../../src/gateway/providers/provider.ts";
import { Upstreams, type UpstreamsOptions } from "../../../src/gateway/providers/upstreams.ts";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { startProvider } from "../../doubles/provider.ts";
import { until } from "../../support/until.ts";
import { answerOf, ask, bearer, failureOf, secretKey, specOf, status } from "./fixture.ts";

interface OpenUpstreams extends AsyncDisposable {
  readonly upstreams: Upstreams;
  readonly problems: string[];
  readonly provider: (name: string) => Provider;
  /** Declares these upstreams, by name, and no others. */
  readonly declare: (specs: Readonly<Record<string, object>>) => void;
  readonly refs: () => readonly string[];
}

function openUpstreams(options: Partial<UpstreamsOptions> = {}): OpenUpstreams {
  const problems: string[] = [];
  const upstreams = new Upstreams({
    env: { ACME_KEY: secretKey },
    onProblem: (upstream, message) => problems.push(`${upstream}: ${message}`),
    discoveryRetryMs: 5,
    ...options,
  });
  return {
    upstreams,
    problems,
    provider: (name) => upstreams.get(name) ?? assert.fail(`there is no ${name}`),
    declare: (specs) => upstreams.update(Object.entries(specs).map(([name, spec]) => ({ name, spec: specOf(spec) }))),
    refs: () => [...upstreams.refs().keys()].toSorted(),
    [Symbol.asyncDispose]: () => upstreams[Symbol.asyncDispose](),
  };
}

/** A store of discovered models that knows `known`, and what it was given to keep. */
function discoveredStore(known: readonly string[] = []) {
  const kept: (readonly string[])[] = [];
  const discovered = {
    get: () => known,
    keep: (_upstream: string, _baseUrl: string, models: readonly string[]) => void kept.push(models),
  };
  return { discovered, kept };
}

describe("upstreams", () => {
  it("follow declarations, and keep unchanged providers as they are", async () => {
    const baseUrl = "http://127.0.0.1:1/v1";
    await using at = openUpstreams();
    let changes = 0;
    using _watch = at.upstreams.watch(() => (changes += 1));
    const one = { baseUrl, models: [{ ref: "one", upstreamModel: "gpt-1" }] };
    at.declare({ a: one, b: { baseUrl, models: [{ ref: "two" }] } });
    assert.deepEqual(at.refs(), ["one", "two"]);
    assert.deepEqual(at.upstreams.refs().get("one")?.providerModel, "gpt-1");
    const [a, b] = [at.provider("a"), at.provider("b")];
    const three = { baseUrl, models: [{ ref: "three" }] };
    at.declare({ b: three, a: one });
    assert.deepEqual(at.refs(), ["one", "three"]);
    assert.equal(at.provider("a"), a);
    assert.notEqual(at.provider("b"), b);
    at.declare({ b: three });
    assert.deepEqual([at.refs(), at.upstreams.get("a")], [["three"], undefined]);
    at.declare({ b: three });
    assert.equal(changes, 3, "nothing changed the last time");
  });

  it("let a removed provider complete its requests", async () => {
    await using double = await startProvider({ tokenMs: 10 });
    await using at = openUpstreams();
    at.declare({ a: { baseUrl: double.baseUrl } });
    const asked = ask(at.provider("a"), { body: [Buffer.from('{"stream":true}')] });
    await until("it has begun", () => asked.head !== undefined);
    at.declare({});
    assert.match(await answerOf(asked), /\[DONE\]/);
    await until("connections are closed", () => double.openConnections === 0);
  });

  it("end everything with the gateway, removed providers too", async () => {
    await using double = await startProvider();
    const spec = { baseUrl: double.baseUrl };
    await using at = openUpstreams();
    double.fail({ kind: "hang" }, { kind: "hang" });
    at.declare({ a: spec, b: spec });
    const all = [ask(at.provider("a")), ask(at.provider("b"))];
    await until("both are there", () => double.posts.length === 2);
    at.declare({ b: spec });
    await at.upstreams[Symbol.asyncDispose]();
    for (const asked of all) assert.match((await failureOf(asked)).code, /^dispatch\.upstream_/);
  });

  it("try again when the list cannot be had, and say why once", async () => {
    await using double = await startProvider();
    await using at = openUpstreams();
    const message = "the provider answered 500 when asked for its models";
    double.models = status(500);
    at.declare({ acme: { baseUrl: double.baseUrl, discover: {} } });
    await until("it was asked three times", () => double.asked.length >= 3);
    assert.deepEqual(at.problems, [`acme: ${message}`]);
    assert.equal(at.upstreams.views()[0]?.problems.discovery, message);
    double.models = ["m1"];
    await until("the list is there", () => at.upstreams.refs().has("m1"));
    assert.equal(at.upstreams.views()[0]?.problems.discovery, undefined);
  });

  it("list no model whose name holds the key", async () => {
    await using double = await startProvider({ key: secretKey, models: [`x-${secretKey}`, "m1"] });
    const { discovered, kept } = discoveredStore();
    await using at = openUpstreams({ discovered });
    at.declare({ acme: { baseUrl: double.baseUrl, ...bearer, models: [], discover: {} } });
    await until("the list is there", () => at.upstreams.hasTried);
    assert.deepEqual(at.refs(), ["m1"]);
    assert.deepEqual(kept, [[`x-${"*".repeat(secretKey.length)}`, "m1"]]);
  });

  it("repeat no part of an answer that is not a list of models", async () => {
    await using double = await startProvider();
    await using at = openUpstreams();
    double.models = status(200, {}, secretKey);
    at.declare({ acme: { baseUrl: double.baseUrl, discover: {} } });
    await until("it has looked", () => at.upstreams.hasTried);
    assert.deepEqual(at.problems, ["acme: the provider's list of models is not JSON"]);
  });

  it("ask a removed provider for its models no more", async () => {
    await using dropped = await startProvider();
    await using other = await startProvider();
    await using at = openUpstreams();
    const [a, b] = [dropped, other].map((double) => {
      double.models = status(500);
      return { baseUrl: double.baseUrl, discover: {} };
    });
    at.declare({ a: a ?? {}, b: b ?? {} });
    await until("both were asked", () => dropped.asked.length > 0 && other.asked.length > 0);
    at.declare({ b: b ?? {} });
    const [before, then] = [dropped.asked.length, other.asked.length];
    await until("the other one is asked on", () => other.asked.length >= then + 3);
    assert.ok(dropped.asked.length <= before + 1);
  });

  it("keep the last good list while a provider is edited, and drop it for another provider", async () => {
    await using first = await startProvider({ models: ["m1"] });
    await using second = await startProvider({ models: ["m2"] });
    await using at = openUpstreams();
    const update = (baseUrl: string, retries: number): void =>
      at.declare({ acme: { baseUrl, retries, models: [], discover: {} } });
    update(first.baseUrl, 1);
    await until("the list is there", () => at.upstreams.refs().has("m1"));
    first.models = { kind: "hang" };
    update(first.baseUrl, 2);
    assert.deepEqual(at.refs(), ["m1"]);
    update(second.baseUrl, 2);
    assert.deepEqual(at.refs(), []);
    await until("the other list is there", () => at.upstreams.refs().has("m2"));
  });

  it("begin with the stored list, store each new list, and store no doubtful list", async () => {
    await using double = await startProvider();
    double.models = { kind: "hang" };
    const { discovered, kept } = discoveredStore(["stored"]);
    await using at = openUpstreams({ discovered });
    const spec = { baseUrl: double.baseUrl, models: [], discover: {} };
    at.declare({ acme: spec });
    assert.deepEqual([at.refs(), at.upstreams.hasTried], [["stored"], false], "nobody waits for the list");
    await until("it is asked", () => double.asked.length === 1);
    double.asked[0]?.response.end('{"data":[]}');
    await until("it has heard", () => at.upstreams.hasTried);
    assert.deepEqual([at.refs(), kept], [["stored"], []], "an empty list may be a bad moment");
    double.models = ["m1"];
    at.declare({ acme: { ...spec, retries: 2 } });
    await until("the list is there", () => at.upstreams.refs().has("m1"));
    assert.deepEqual(kept, [["m1"]]);
  });

  it("report a problem for a person once, and not after it is mended", async () => {
    await using double = await startProvider({ key: secretKey });
    const env: NodeJS.ProcessEnv = {};
    await using at = openUpstreams({ env });
    at.declare({ acme: { baseUrl: double.baseUrl, ...bearer } });
    for (let count = 0; count < 2; count += 1) await failureOf(ask(at.provider("acme")));
    assert.deepEqual(at.problems, ["acme: the environment variable ACME_KEY is not set"]);
    env["ACME_KEY"] = secretKey;
    await answerOf(ask(at.provider("acme")));
    assert.equal(at.upstreams.views()[0]?.problems.key, undefined);
  });

  it("have metrics that count attempts and outcomes, and show requests in flight", async () => {
    await using double = await startProvider();
    const registry = new MetricPage();
    const metrics: UpstreamMetrics = new UpstreamMetrics(registry, () => at.upstreams.views());
    await using at = openUpstreams({
      onOutcome: (upstream, outcome, seconds) => metrics.outcome(upstream, outcome, seconds),
      onRetry: (upstream) => metrics.retry(upstream),
    });
    at.declare({ acme: { baseUrl: double.baseUrl, maxConcurrent: 1 } });
    double.fail(status(503), status(200), { kind: "hang" });
    await answerOf(ask(at.provider("acme")));
    const all = [ask(at.provider("acme")), ask(at.provider("acme"))];
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
    for (const each of all) each.leave();
  });
});
