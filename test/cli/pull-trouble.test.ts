import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { Client } from "../../src/cli/client.ts";
import { pull } from "../../src/cli/pulls.ts";
import { apiDouble } from "../support/api-double.ts";
import { listOf, told } from "./fixture.ts";

const progress = { bytes_done: 1_048_576, bytes_total: 4_194_304, bytes_per_second: 524_288, eta_seconds: 6 };
const job = { id: "p1", model: "qwen3-4b", state: "running", error: null, ...progress };

describe("a pull that cannot go on", () => {
  const retryAt = "2026-01-01T00:00:40.000Z";
  const at = new Date(retryAt).toTimeString().slice(0, 8);
  const error = { code: "model.pull_failed", message: "huggingface.co cannot be reached; check the network" };
  const waiting = { ...job, state: "queued", error, retry_at: retryAt };

  for (const [isTTY, lines] of [
    [
      false,
      [
        "qwen3-4b: queued 0%\n",
        `qwen3-4b: huggingface.co cannot be reached; check the network; next try at ${at}, then less and less often for an hour at most\n`,
        "qwen3-4b: running 20%\n",
      ],
    ],
    [
      true,
      [
        "\r\u001B[Kqwen3-4b: queued [--------------------] 0% of 4.0 MiB",
        "\r\u001B[K",
        `qwen3-4b: huggingface.co cannot be reached; check the network; next try at ${at}, then less and less often for an hour at most\n`,
        `\r\u001B[Kqwen3-4b: queued; next try at ${at}`,
        "\r\u001B[Kqwen3-4b: running",
        `\r\u001B[Kqwen3-4b: queued; next try at ${at}`,
        "\r\u001B[Kqwen3-4b: running",
        "\r\u001B[Kqwen3-4b: running [#####---------------] 25% of 4.0 MiB, 512.0 KiB/s, 6s left",
        "\r\u001B[K",
      ],
    ],
  ] as const)
    it(`says once why no byte comes, whole, ${isTTY ? "on a terminal" : "elsewhere"}, and when it is tried again`, async () => {
      const none = { bytes_done: 0, bytes_per_second: null, eta_seconds: null };
      // Two attempts with one cause, and then bytes.
      const course = [waiting, { ...job, error }, waiting, { ...job, error }, job, { ...job, state: "completed" }];
      await using api = await apiDouble({
        "/api/models/pull": { ...job, state: "queued", ...none },
        "/api/pulls/p1": (response: ServerResponse) => response.end(JSON.stringify(course.shift())),
      });
      const client = new Client({ server: api.url, token: undefined });
      const said: string[] = [];
      const screen = { isTTY, write: (text: string) => said.push(text), columns: 200 };
      await pull(client, { model: "qwen3-4b" }, { isDetached: false, screen, pollMs: 1 });
      assert.deepEqual(said, lines);
    });

  it("list says below the table why no byte comes", async () => {
    assert.match(
      (await told({ "/api/pulls": listOf(waiting, { ...job, state: "completed" }) }, "pull list")).stdout,
      /\n\nqwen3-4b: huggingface\.co cannot be reached; check the network; next try at \d\d:\d\d:\d\d\n$/,
    );
  });
});
