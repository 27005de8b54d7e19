import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rowOf } from "../../src/cli/bench.ts";
import { rowsOf, tokensOf } from "../../src/cli/top.ts";
import { stream, type Answer } from "../support/api-double.ts";
import { chunk, helloChunks } from "../support/scripted-engine.ts";
import { listOf, model, primary, refused, slots, told, type Answers } from "./fixture.ts";

describe("berth top", () => {
  it("prints slots with what they do, those with requests first", async () => {
    let tokens = 0;
    const answers: Answers = {
      "/api/slots": listOf(...slots.data.toReversed()),
      "/api/metrics": (response) => {
        response.end(
          `berth_tokens_total{slot="primary",direction="in"} 9\nberth_tokens_total{slot="primary",direction="out"} ${tokens}\n`,
        );
        tokens += 50;
      },
    };
    const { code, stdout } = await told(answers, "top -n 1");
    assert.equal(code, 0);
    const [head, first, second] = stdout.trimEnd().split("\n");
    assert.match(head ?? "", /^NAME +STATE +MODEL +IN-FLIGHT +QUEUED +HELD +TOK\/S +MEMORY +GPU$/);
    assert.match(first ?? "", /^primary +ready +tiny +2 +\S+ +\S+ +(?!0 )\d+(?:\.\d)? /);
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
  const chat = "/v1/chat/completions";
  const kept = "/api/slots/primary/benchmark";
  const eventsOf = (chunks: readonly string[]): Answer => stream(...chunks.map((text) => text.slice(6).trim()));
  const hello: Answers = { "/api/slots/primary": primary, [chat]: eventsOf(helloChunks), [kept]: primary };
  const bench = (line: string, answers: Answers = hello) => told(answers, `bench primary ${line}`);
  const short = "--clients 1 --requests 1";
  const isKept = ({ asked }: { readonly asked: readonly string[] }): boolean => asked.includes(`POST ${kept}`);

  it("asks each level's clients by prompts that begin as no other, and prints a row for each level", async () => {
    const starts: unknown[] = [];
    for (let run = 0; run < 2; run += 1) {
      const { code, stdout, asked, bodies } = await bench("--clients 1,3 --requests 2 -o json");
      assert.equal(code, 0);
      const { data }: { data: { clients: number; requests: number }[] } = JSON.parse(stdout);
      assert.deepEqual(
        data.map(({ clients, requests }) => [clients, requests]),
        [
          [1, 2],
          [3, 6],
        ],
      );
      const prompts = bodies.filter((_body, index) => asked[index]?.endsWith(chat));
      // As engines compare prompts: from their start.
      starts.push(...prompts.map((body) => /"content":"(.{6})/.exec(body)?.[1]));
    }
    assert.deepEqual([starts.length, new Set(starts).size], [18, 18]);
  });

  it("has its slot keep the result", async () => {
    const { code, stderr, asked, bodies } = await bench(`${short} --max-tokens 9`);
    assert.equal(code, 0);
    assert.match(stderr, /the result is kept: `berth slot show primary`/);
    const sent: { model: string; max_tokens: number; levels: { clients: number }[] } = JSON.parse(
      bodies[asked.indexOf(`POST ${kept}`)] ?? "{}",
    );
    assert.deepEqual([sent.model, sent.max_tokens, sent.levels.map(({ clients }) => clients)], ["tiny", 9, [1]]);
  });

  it("counts the thoughts of a model that has not come to its answer within the tokens", async () => {
    const thoughts = ["so", " the", " user"].map((text) => chunk({ reasoning_content: text }));
    const events = [chunk({ role: "assistant", content: null }), ...thoughts, chunk({}, "length")];
    const found = await bench(`${short} -o json`, { ...hello, [chat]: eventsOf([...events, "data: [DONE]"]) });
    assert.ok(found.code === 0 && isKept(found), found.stderr);
    const { data }: { data: { tokens_per_second: number; tokens_per_second_each: number | null }[] } = JSON.parse(
      found.stdout,
    );
    assert.ok((data[0]?.tokens_per_second ?? 0) > 0, found.stdout);
    assert.ok((data[0]?.tokens_per_second_each ?? 0) >= 0, found.stdout);
  });

  it("refuses a level without a token", async () => {
    const empty = eventsOf([chunk({}, "stop"), "data: [DONE]"]);
    const found = await bench("--clients 2", { ...hello, [chat]: empty });
    assert.deepEqual([found.code, found.stdout, isKept(found)], [1, "", false]);
    assert.match(found.stderr, /no answer of primary to 2 clients had a token: there is nothing to measure/);
  });

  it("keeps no result of two engines", async () => {
    let looks = 0;
    const replaced: Answer = (response) => {
      looks += 1;
      response.end(JSON.stringify({ ...primary, processes: [{ startedAt: `start ${looks}` }] }));
    };
    const found = await bench(short, { ...hello, "/api/slots/primary": replaced });
    assert.deepEqual([found.code, isKept(found)], [0, false]);
    assert.match(found.stderr, /not kept: the engine was replaced while it was measured/);
  });

  it("prints its rows also where the token may not store them", async () => {
    const forbidden = refused(403, "auth.forbidden", "the token has not that scope");
    const { code, stdout, stderr } = await bench(short, { ...hello, [kept]: forbidden });
    assert.equal(code, 0);
    assert.match(stdout, /^CLIENTS/);
    assert.match(stderr, /not kept: the token has not that scope/);
  });

  for (const [words, why] of [
    [["--requests", "0"], /--requests .*It must be 1 or more/],
    [["--max-tokens", "0"], /--max-tokens .*It must be 1 or more/],
    [["--clients", "0"], /numbers from 1 to 256/],
    [["--clients", "1,x"], /numbers from 1 to 256/],
    [["--clients", "300"], /numbers from 1 to 256/],
    [["--clients", ""], /numbers from 1 to 256/],
  ] as const)
    it(`refuses ${words.join(" ")}, before it loads the slot`, async () => {
      const { code, stderr, asked } = await told({}, ["bench", "primary", ...words]);
      assert.deepEqual([code, asked], [2, []]);
      assert.match(stderr, why);
    });

  const levels = [{ clients: 1, first_token_ms: 12, tokens_per_second_each: 41.5, tokens_per_second: 40 }];
  const on = { model: "tiny", backend: "cpu", runtime: "process" };
  const last = { measured_at: "2026-11-23T07:00:00.000Z", ...on, levels, changed: null };
  const slot = { ...primary, last_benchmark: last };
  const measured = { ...model, last_benchmark: last };
  const changed = { ...slot, last_benchmark: { ...last, changed: "the engine has changed" } };
  const lines =
    /last benchmark: +2026-11-23T07:00:00.000Z tiny on cpu, process\n  1 client +first token 12 ms, 41.5 tok/;
  for (const [line, path, answer, said] of [
    ["slot show primary", "/api/slots/primary", slot, lines],
    ["slot show primary", "/api/slots/primary", changed, /, process; void: the engine has changed\n/],
    ["model show tiny", "/api/models/tiny", measured, lines],
    ["slot list -o wide", "/api/slots", listOf(slot, changed), /41\.5 .*\n.*41\.5 \(void\)/],
    ["model list -o wide", "/api/models", listOf(measured), /BENCH TOK\/S.*\n.* 41\.5 /],
  ] as const)
    it(`is shown by ${line}: ${said.source.slice(0, 20)}…`, async () => {
      assert.match((await told({ [path]: answer }, line)).stdout, said);
    });

  for (const [what, second, row] of [
    [
      "the time between tokens from the first one",
      { firstSeconds: 0.5, seconds: 0.501, tokens: 1 },
      { first_token_ms: 1000, slowest_first_token_ms: 1000, tokens_per_second_each: 10, tokens_per_second: 6 },
    ],
    [
      "no answer without a token",
      { firstSeconds: 0, seconds: 0.5, tokens: 0 },
      { first_token_ms: 1000, slowest_first_token_ms: 1000, tokens_per_second_each: 10, tokens_per_second: 5.5 },
    ],
  ] as const)
    it(`counts ${what}`, () => {
      const answers = [{ firstSeconds: 1, seconds: 2, tokens: 11 }, second];
      assert.deepEqual(rowOf(2, answers, 2), { clients: 2, requests: 2, ...row });
    });
});
