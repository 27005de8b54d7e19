import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { freePort } from "../support/free-port.ts";
import { post, record } from "../support/openai.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { embeddedProgram } from "./engine.ts";

test("while the embedded engine loads it listens and answers 503, and 200 from then on", async () => {
  await using directory = await tempDir();
  const file = join(directory.path, "model.gguf");
  // Large enough to be seen loading; most of it is a hole in the file.
  await writeTinyModel(file, { hollow: 400_000 });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ["--model", file, "--alias", "tiny", "--port", String(port), "--threads", "1", "--ctx-size", "256"];
  const child = spawn(process.execPath, [embeddedProgram, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  try {
    const statuses: number[] = [];
    const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 1 };
    await until("it has loaded", async () => {
      if (child.exitCode !== null) throw new Error(`the engine ended with ${child.exitCode}\n${log}`);
      const health = await fetch(`${url}/health`);
      if (statuses.at(-1) !== health.status) statuses.push(health.status);
      if (health.status === 200) return true;
      assert.match(String(record(record(await health.json())["error"])["message"]), /Loading model/);
      const asked = await post(url, "/v1/chat/completions", chat);
      // It may have loaded between the two questions.
      assert.ok(asked.status === 503 || asked.status === 200);
      return false;
    });
    assert.deepEqual(statuses, [503, 200], log);
    assert.equal((await post(url, "/v1/chat/completions", chat)).status, 200);
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
});

test("a context above the model's own is said in the log, with the size in force", async () => {
  await using directory = await tempDir();
  const file = join(directory.path, "model.gguf");
  await writeTinyModel(file);
  const args = ["--model", file, "--port", String(await freePort()), "--ctx-size", "9000", "--parallel", "2"];
  const child = spawn(process.execPath, [embeddedProgram, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  try {
    await until("it has loaded", () => log.includes("loaded "));
    assert.match(log, /--ctx-size gives each request 4500 tokens, and the model was made for 2048: each gets 2048/);
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
});
