import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rowOf } from "../../src/cli/bench.ts";
import { rowsOf, tokensOf } from "../../src/cli/top.ts";
import { apiDouble, failure, stream, type Answer } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { chunk, helloChunks } from "../support/scripted-engine.ts";
import { model, primary, slots } from "./fixture.ts";

describe("berth top", () => {
  it("prints slots with what they do, those with requests first", async () => {
    let tokens = 0;
    await using api = await apiDouble({
      "/api/slots": { object: "list", data: slots.data.toReversed() },
      "/api/metrics": (response) => {
        response.end(
          `berth_tokens_total{slot="primary",direction="in"} 9\nberth_tokens_total{slot="primary",direction="out"} ${tokens}\n`,
        );
        tokens += 50;
      },
    });
    const { code, stdout } = await runBerth(["top", "-n", "1"], { SVC_URL: api.url });
    assert.equal(code, 0);
    const [head, first, second] = stdout.trimEnd().split("\n");
    assert.match(head ?? "", /^NAME +STATE +MODEL +IN-FLIGHT +QUEUED +HELD +TOK\/S +MEMORY +GPU$/);
    const rate = Number(/^primary +ready +tiny +2 +\S+ +\S+ +(\d+(?:\.\d)?) /.exec(first ?? "")?.[1]);
    // 50 tokens in the second between two looks, or in as long as this machine took for it.
    assert.ok(rate > 0 && rate < 51, first);
    assert.match(second ?? "", /^coder +error /);
  });

  it("computes rates over the time between two samples, and none across a restart of the gateway", () => {
    const look = (at: number, tokens: number): Parameters<typeof rowsOf>[0] => ({
      at,
      slots: [{ name: "primary" }],
      tokens: tokensOf(`berth_tokens_total{slot="primary",direction="out"} ${tokens}\n`),
    });
    assert.equal(rowsOf(look(0, 100), look(2000, 150))[0]?.["tokens_per_second"], 25);
    assert.equal(rowsOf(look(0, 100), look(2000, 5))[0]?.["tokens_per_second"], null);
  });
});

describe("berth bench", () => {
  it("asks each level's clients, and prints a row for each level", async () => {
    await using api = await apiDouble({
      "/api/slots/primary": primary,
      "/v1/chat/completions": (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(helloChunks.join(""));
      },
    });
    const args = ["bench", "primary", "--clients", "1,3", "--requests", "2", "-o", "json"];
    const { code, stdout } = await runBerth(args, { SVC_URL: api.url });
    assert.equal(code, 0);
    const { data }: { data: { clients: number; requests: number }[] } = JSON.parse(stdout);
    assert.deepEqual(
      data.map(({ clients, requests }) => [clients, requests]),
      [
        [1, 2],
        [3, 6],
      ],
    );
    assert.equal(api.asked.filter((line) => line.includes("/v1/chat")).length, 9);
    const prompts = api.bodies.filter((_body, index) => api.asked[index]?.includes("/v1/chat"));
    // As engines compare prompts: from their start.
    const starts = prompts.map((body) => /"content":"(.{6})/.exec(body)?.[1]);
    assert.equal(new Set(starts).size, 9, "each prompt begins as no other");
    assert.equal((await runBerth(args, { SVC_URL: api.url })).code, 0);
    const again = api.bodies.filter((_body, index) => api.asked[index]?.includes("/v1/chat"));
    const all = again.map((body) => /"content":"(.{6})/.exec(body)?.[1]);
    assert.equal(new Set(all).size, 18, "also not as one of an earlier run");
  });

  it("counts the thoughts of a model that has not come to its answer within the tokens", async () => {
    const thoughts = ["so", " the", " user"].map((text) => chunk({ reasoning_content: text }));
    const events = [chunk({ role: "assistant", content: null }), ...thoughts, chunk({}, "length")];
    await using api = await apiDouble({
      "/api/slots/primary": primary,
      "/v1/chat/completions": stream(...events.map((event) => event.slice(6).trim()), "[DONE]"),
      "/api/slots/primary/benchmark": primary,
    });
    const args = ["bench", "primary", "--clients", "1", "--requests", "2", "-o", "json"];
    const { code, stdout, stderr } = await runBerth(args, { SVC_URL: api.url });
    assert.deepEqual([code, stderr.includes("the result is kept")], [0, true], stderr);
    const { data }: { data: { tokens_per_second: number; tokens_per_second_each: number | null }[] } =
      JSON.parse(stdout);
    assert.ok((data[0]?.tokens_per_second ?? 0) > 0, stdout);
    assert.ok((data[0]?.tokens_per_second_each ?? 0) >= 0, stdout);
  });

  it("refuses to measure no request, and answers of no token, before it loads the slot", async () => {
    await using api = await apiDouble({});
    for (const option of ["--requests", "--max-tokens"]) {
      const { code, stderr } = await runBerth(["bench", "primary", option, "0"], { SVC_URL: api.url });
      assert.equal(code, 2);
      assert.match(stderr, new RegExp(`${option} .*It must be 1 or more`));
    }
    assert.deepEqual(api.asked, []);
  });

  it("refuses a level without a token, and leaves single empty answers out", async () => {
    const empty = stream(chunk({}, "stop").slice(6).trim(), "[DONE]");
    await using api = await apiDouble({
      "/api/slots/primary": primary,
      "/v1/chat/completions": empty,
      "/api/slots/primary/benchmark": primary,
    });
    const { code, stdout, stderr } = await runBerth(["bench", "primary", "--clients", "2"], { SVC_URL: api.url });
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /no answer of primary to 2 clients had a token: there is nothing to measure/);
    assert.ok(!api.asked.some((line) => line.endsWith("/benchmark")));
    const answers = [
      { firstSeconds: 1, seconds: 2, tokens: 11 },
      { firstSeconds: 0, seconds: 0.5, tokens: 0 },
    ];
    const {
      first_token_ms: first,
      slowest_first_token_ms: slowest,
      tokens_per_second_each: each,
    } = rowOf(2, answers, 2);
    assert.deepEqual([first, slowest, each], [1000, 1000, 10]);
  });

  const hello: Answer = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(helloChunks.join(""));
  };
  const short = ["bench", "primary", "--clients", "1", "--requests", "1"];

  it("has its slot keep the result", async () => {
    await using api = await apiDouble({
      "/api/slots/primary": primary,
      "/v1/chat/completions": hello,
      "/api/slots/primary/benchmark": primary,
    });
    const { code, stderr } = await runBerth([...short, "--max-tokens", "9"], { SVC_URL: api.url });
    assert.equal(code, 0);
    assert.match(stderr, /the result is kept: `berth slot show primary`/);
    const body = api.bodies[api.asked.indexOf("POST /api/slots/primary/benchmark")];
    const sent: { model: string; max_tokens: number; levels: { clients: number }[] } = JSON.parse(body ?? "{}");
    assert.deepEqual([sent.model, sent.max_tokens, sent.levels.map(({ clients }) => clients)], ["tiny", 9, [1]]);
  });

  it("keeps no result of two engines", async () => {
    let looks = 0;
    await using api = await apiDouble({
      "/api/slots/primary": (response) => {
        looks += 1;
        response.end(JSON.stringify({ ...primary, processes: [{ startedAt: `start ${looks}` }] }));
      },
      "/v1/chat/completions": hello,
    });
    const { code, stderr } = await runBerth(short, { SVC_URL: api.url });
    assert.equal(code, 0);
    assert.match(stderr, /not kept: the engine was replaced while it was measured/);
    assert.ok(!api.asked.some((line) => line.endsWith("/benchmark")));
  });

  it("prints its rows also where the token may not store them", async () => {
    await using api = await apiDouble({
      "/api/slots/primary": primary,
      "/v1/chat/completions": hello,
      "/api/slots/primary/benchmark": (response) => {
        response.writeHead(403, { "content-type": "application/json" });
        response.end(JSON.stringify(failure("auth.forbidden", "the token has not that scope")));
      },
    });
    const { code, stdout, stderr } = await runBerth(short, { SVC_URL: api.url });
    assert.equal(code, 0);
    assert.match(stdout, /^CLIENTS/);
    assert.match(stderr, /not kept: the token has not that scope/);
  });

  it("is shown by slot show and in the wide tables", async () => {
    const last = {
      measured_at: "2026-11-23T07:00:00.000Z",
      model: "tiny",
      backend: "cpu",
      runtime: "process",
      levels: [{ clients: 1, first_token_ms: 12, tokens_per_second_each: 41.5, tokens_per_second: 40 }],
      changed: null,
    };
    const slot = { ...primary, last_benchmark: last };
    await using api = await apiDouble({
      "/api/slots/primary": slot,
      "/api/slots": { object: "list", data: [slot, { ...slot, last_benchmark: { ...last, changed: "it has" } }] },
      "/api/models": { object: "list", data: [{ ...model, last_benchmark: last }] },
      "/api/models/tiny": { ...model, last_benchmark: last },
    });
    const said = async (...args: readonly string[]): Promise<string> =>
      (await runBerth(args, { SVC_URL: api.url })).stdout;
    const lines =
      /last benchmark: +2026-11-23T07:00:00.000Z tiny on cpu, process\n  1 client +first token 12 ms, 41.5 tok/;
    assert.match(await said("slot", "show", "primary"), lines);
    assert.match(await said("model", "show", "tiny"), lines);
    assert.match(await said("slot", "list", "-o", "wide"), /41\.5 .*\n.*41\.5 \(void\)/);
    assert.match(await said("model", "list", "-o", "wide"), /BENCH TOK\/S.*\n.* 41\.5 /);
    api.answer("/api/slots/primary", { ...slot, last_benchmark: { ...last, changed: "the engine has changed" } });
    assert.match(await said("slot", "show", "primary"), /, process; void: the engine has changed\n/);
  });

  it("counts the time between tokens from the first one", () => {
    const answers = [
      { firstSeconds: 1, seconds: 2, tokens: 11 },
      { firstSeconds: 0.5, seconds: 0.501, tokens: 1 },
    ];
    assert.deepEqual(rowOf(2, answers, 2), {
      clients: 2,
      requests: 2,
      first_token_ms: 1000,
      slowest_first_token_ms: 1000,
      tokens_per_second_each: 10,
      tokens_per_second: 6,
    });
  });

  for (const levels of ["0", "1,x", "300", ""]) {
    it(`refuses --clients ${JSON.stringify(levels)}`, async () => {
      const { code, stderr } = await runBerth(["bench", "primary", "--clients", levels], {});
      assert.equal(code, 2);
      assert.match(stderr, /numbers from 1 to 256/);
    });
  }
});
