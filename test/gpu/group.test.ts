import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runBerth } from "../support/command.ts";
import { post } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { holders, mebibyte, mebibytes, readCard, sampled } from "./card.ts";
import { chat, sharedModels, pidOf, ready, shellOf, startOnGpu } from "./fixture.ts";
import { contextFor } from "./models.ts";

const budget = 'min_residency_seconds = 0\nmax_wait_seconds = 2\n[budget]\ndevice = "gpu0"\n';
/** How long two clients ask for their models. */
const loadedMs = 30_000;

describe("a group whose budget is the GPU", () => {
  it("gives it to two large slots in turn: every request is answered, and the memory is never more than there is", async (test) => {
    const models = await sharedModels();
    const { usableBytes } = models.card;
    const part = async (name: "large" | "other"): Promise<string> =>
      `context_size = ${await contextFor(models.card, name, usableBytes * 0.6)}`;
    const top = 'load = "onDemand"\ngroup = "gpu"';
    await using berth = await startOnGpu(
      models,
      {
        one: { model: "large", top, more: await part("large") },
        two: { model: "other", top, more: await part("other") },
      },
      { gpu: budget },
    );
    const answers: { readonly slot: string; readonly status: number; readonly ms: number; readonly text: string }[] =
      [];
    const ask = async (slot: string): Promise<void> => {
      const began = performance.now();
      const response = await post(berth.url, "/v1/chat/completions", {
        model: slot,
        messages: [{ role: "user", content: "hello" }],
        max_tokens: 16,
        ignore_eos: true,
      });
      const text = await response.text();
      answers.push({ slot, status: response.status, ms: performance.now() - began, text });
    };
    const until = performance.now() + loadedMs;
    const samples = await sampled(async () => {
      await Promise.all(
        ["one", "two"].map(async (slot) => {
          do await ask(slot);
          while (performance.now() < until);
        }),
      );
    });
    for (const slot of ["one", "two"]) {
      const own = answers.filter((answer) => answer.slot === slot);
      const times = own.map(({ ms }) => ms).toSorted((a, b) => a - b);
      test.diagnostic(
        `${slot}: ${own.length} answers, half of them within ${Math.round(times[Math.floor(times.length / 2)] ?? 0)} ms, ` +
          `the slowest after ${Math.round(times.at(-1) ?? 0)} ms`,
      );
    }
    const most = Math.max(...samples.map(({ usedBytes }) => usedBytes));
    const rows = await Promise.all(["one", "two"].map(async (slot) => await berth.slot(slot)));
    const swaps = rows.flatMap(({ transitions }) => transitions ?? []);
    const readyAt = swaps.filter(({ to }) => to === "ready").map(({ at }) => Date.parse(String(at)));
    const leftAt = swaps.filter(({ to }) => to === "unloading").map(({ at }) => Date.parse(String(at)));
    const times = leftAt.flatMap((left) => {
      const next = readyAt.filter((at) => at > left).toSorted((a, b) => a - b)[0];
      return next === undefined ? [] : [next - left];
    });
    test.diagnostic(
      `${samples.length} samples, most in use ${mebibytes(most)} of ${mebibytes(usableBytes)}; ` +
        `${times.length} swaps, from leaving to ready ${times.map((ms) => `${ms} ms`).join(", ")}`,
    );
    assert.deepEqual(
      answers.filter(({ status }) => status !== 200),
      [],
    );
    assert.ok(answers.some(({ slot }) => slot === "one") && answers.some(({ slot }) => slot === "two"));
    assert.ok(times.length > 0, "it was swapped");
    for (const { usedBytes, totalBytes, holders: held } of samples) {
      assert.ok(usedBytes <= totalBytes, `${usedBytes} of ${totalBytes}`);
      const sum = [...held.values()].reduce((all, bytes) => all + bytes, 0);
      assert.ok(sum <= usableBytes, [...held].join(" "));
    }
    const both = samples.filter(
      ({ holders: held }) => [...held.values()].filter((bytes) => bytes > usableBytes / 3).length > 1,
    );
    assert.equal(both.length, 0, "never two loaded ones");
  });

  it("leaves the GPU when it is lent, and comes back at the end of the loan", async (test) => {
    const models = await sharedModels();
    const { usedBytes: before } = await readCard();
    await using berth = await startOnGpu(
      models,
      {
        always: { model: "large", top: 'group = "gpu"', more: "context_size = 8192" },
        asked: { model: "small", top: 'load = "onDemand"\ngroup = "gpu"', more: "context_size = 8192" },
      },
      { gpu: budget },
    );
    await ready(berth, "always");
    await chat(berth, "asked");
    const pids = [await pidOf(berth, "always"), await pidOf(berth, "asked")];
    const full = (await readCard()).usedBytes;
    let began = performance.now();
    const lent = await runBerth(["lend", "10m", "--group", "gpu"], shellOf(berth));
    assert.equal(lent.code, 0, lent.stderr);
    await until("the GPU is empty", async () => {
      const held = await holders();
      return !pids.some((pid) => held.has(pid)) && (await readCard()).usedBytes <= before + 64 * mebibyte;
    });
    test.diagnostic(
      `lent: ${mebibytes(full)} in use before, ${mebibytes((await readCard()).usedBytes)} after ${Math.round(performance.now() - began)} ms`,
    );
    const refused = await post(berth.url, "/v1/chat/completions", {
      model: "asked",
      messages: [{ role: "user", content: "hello" }],
    });
    assert.equal(refused.status, 503, await refused.text());
    assert.equal((await holders()).size, 0);
    began = performance.now();
    const ended = await runBerth(["lend", "--end"], shellOf(berth));
    assert.equal(ended.code, 0, ended.stderr);
    await ready(berth, "always");
    test.diagnostic(
      `the slot that is always loaded was ready ${Math.round(performance.now() - began)} ms after the end`,
    );
    await chat(berth, "asked");
    assert.equal((await holders()).size, 2);
  });
});
