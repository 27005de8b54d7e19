import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rowOf } from "../../src/cli/bench.ts";
import { rowsOf, tokensOf } from "../../src/cli/top.ts";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { helloChunks } from "../support/scripted-engine.ts";
import { primary, slots } from "./fixture.ts";

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
    assert.match(first ?? "", /^primary +ready +tiny +2 +\S+ +\S+ +(4\d|50)(\.\d)? /);
    assert.match(second ?? "", /^coder +error /);
  });

  it("takes rates over the time between two looks, and none after a gateway's new start", () => {
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
    assert.equal(new Set(api.bodies.filter((body) => body !== "")).size, 9, "each prompt is another");
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
