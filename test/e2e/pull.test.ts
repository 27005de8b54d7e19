import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startHub } from "../doubles/hub.ts";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { envelopeOf } from "../support/envelope.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const mebibyte = 1024 * 1024;
const gemma = "gemma-3-4b-it-Q4_K_M.gguf";

test("models are fetched, checked and removed by people's commands", async (t) => {
  await using directory = await tempDir();
  const path = join(directory.path, "tiny.gguf");
  await writeTinyModel(path);
  const tiny = await readFile(path);
  await using hub = await startHub({
    [gemma]: tiny,
    "other.gguf": tiny,
    "big.bin": randomBytes(8 * mebibyte),
    "large.bin": randomBytes(8 * mebibyte),
  });
  await using berth = await startBerth({
    env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
    prepare: async ({ configDir }) => {
      await mkdir(join(configDir, "models"));
      const licensed = `source: hf://ggml-org/gemma-3-4b-it-GGUF/${gemma}@main\n`;
      await writeFile(join(configDir, "models/gemma.yaml"), licensed);
      await writeFile(join(configDir, "models/absent.yaml"), "source: hf://acme/tiny/absent.gguf\n");
      await writeFile(join(configDir, "slots/a.toml"), '[model]\ndefault = "gemma"\n');
      await writeFile(join(configDir, "slots/b.toml"), '[model]\ndefault = "absent"\n');
    },
  });
  const env = { SVC_URL: berth.url };
  const stored = (folder: string): Promise<string[]> => readdir(join(berth.modelsDir, ".berth", folder));
  const send = async (method: string, at: string, body?: object): Promise<Response> => {
    const headers = { "content-type": "application/json" };
    return await fetch(new URL(at, berth.url), { method, headers, ...(body && { body: JSON.stringify(body) }) });
  };
  const stalled = async (slot: string): Promise<readonly unknown[]> => {
    const found = conditionOf(await berth.state(slot, "error"), "Stalled");
    return [found?.reason, found?.message];
  };
  const pulled = async (id: string): Promise<Record<string, unknown>> => {
    const found = await berth.get(`/api/pulls/${id}`);
    return isRecord(found) ? found : {};
  };
  const begin = async (ref: string): Promise<string> => {
    const response = await send("POST", "/api/models/pull", { ref, source: `hf://acme/tiny/${ref}.bin` });
    const job: unknown = await response.json();
    assert.equal(response.status, 202, JSON.stringify(job));
    return isRecord(job) ? String(job["id"]) : "";
  };

  await t.test("a slot whose model the hub does not have says so, with what to do", async () => {
    const [reason, message] = await stalled("b");
    assert.equal(reason, "SourceNotFound");
    assert.match(String(message), /acme\/tiny has no such file or repository, or is private/);
  });

  await t.test("a licence that must be accepted holds its slot back until a person accepts it", async () => {
    const [reason, message] = await stalled("a");
    assert.equal(reason, "LicenseNotAccepted");
    assert.match(
      String(message),
      /^the licence of Gemma 3 4B, 4 bits must be accepted first: Gemma Terms of Use, https:/,
    );
    assert.match(String(message), /then run `berth model pull gemma --accept-license`/);
    assert.ok(!hub.server.asked.some(({ path: asked }) => asked.includes("gemma")), "nothing was asked of the hub");
    const refused = await runBerth(["model", "pull", "gemma"], env);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /must be accepted first: .* \(--accept-license\)/);
    const accepted = await runBerth(["model", "pull", "gemma", "--accept-license"], env);
    assert.equal(accepted.code, 0, accepted.stderr);
    await berth.state("a", "ready", "idle", "serving");
  });

  await t.test("berth model pull downloads no file that the store has already", async () => {
    hub.server.asked.length = 0;
    const ended = await runBerth(["model", "pull", "hf://acme/tiny/other.gguf"], env);
    assert.equal(ended.code, 0, ended.stderr);
    assert.match(ended.stdout, /^other: pulled, /);
    assert.ok(!hub.server.asked.some(({ path: asked }) => asked.startsWith("/signed/")));
    await until("the model is listed", async () => (await send("GET", "/api/models/other")).ok);
  });

  await t.test("a name that people type is that of a repository's model, or a table to choose from", async () => {
    const several = await runBerth(["model", "pull", "hf.co/acme/tiny"], env);
    assert.deepEqual([several.code, several.stdout], [2, ""]);
    const [head, ...rows] = several.stderr.split("\n");
    assert.equal(head, "usage: hf.co/acme/tiny stands for several models:");
    assert.match(
      rows.join("\n"),
      /^QUANT +SIZE +FIT +NAME\nQ4_K_M +\S+ \S+ +fits +acme\/tiny:Q4_K_M\n- .*other\.gguf\nchoose one/,
    );
    const lost = await runBerth(["model", "pull", "acme/tiny:Q8_0"], env);
    assert.match(lost.stderr, /^usage: nothing is called acme\/tiny:Q8_0; there is:\n/);
    for (const [typed, ref] of [
      ["acme/tiny:other", "other"],
      ["https://huggingface.co/acme/tiny/blob/main/other.gguf", "other"],
      ["acme/tiny:q4_k_m", "gemma-3-4b-it-Q4_K_M"],
    ] as const) {
      const ended = await runBerth(["model", "pull", typed], env);
      assert.equal(ended.code, 0, ended.stderr);
      assert.match(ended.stdout, new RegExp(`^${ref}: pulled, `));
    }
  });

  await t.test("a pull is paused and resumed; another one is cancelled, and leaves nothing", async () => {
    hub.hold();
    const id = await begin("big");
    await until("half of it is there", async () => Number((await pulled(id))["bytes_done"]) >= 3 * mebibyte);
    assert.equal((await send("POST", `/api/pulls/${id}/pause`)).status, 202);
    await until("it is paused", async () => (await pulled(id))["state"] === "paused");
    assert.equal((await send("POST", `/api/pulls/${id}/resume`)).status, 202);
    hub.release();
    await until("it is whole", async () => (await pulled(id))["state"] === "completed");
    hub.hold();
    const next = await begin("large");
    await until("some of it is there", async () => Number((await pulled(next))["bytes_done"]) > 0);
    assert.equal((await stored("partial")).length, 1);
    assert.equal((await send("DELETE", `/api/pulls/${next}`)).status, 202);
    await until("it is cancelled", async () => (await pulled(next))["state"] === "cancelled");
    assert.deepEqual(await stored("partial"), []);
    hub.release();
  });

  await t.test("an address of the machine's network is refused over this API", async () => {
    const refused = await send("POST", "/api/models/pull", { source: "https://169.254.169.254/x" });
    assert.deepEqual([refused.status, (await envelopeOf(refused)).error.code], [403, "auth.forbidden"]);
  });

  await t.test("berth model verify reads its files, and says which has changed", async () => {
    const whole = await runBerth(["model", "verify", "big"], env);
    assert.deepEqual([whole.code, whole.stdout], [0, "big: verified, 8.0 MiB\n"], whole.stderr);
    const model = await berth.get("/api/models/big");
    await using file = await open(isRecord(model) ? String(model["path"]) : "", "r+");
    await file.write(Buffer.from("damage"), 0, 6, 5 * mebibyte);
    const damaged = await runBerth(["model", "verify", "big"], env);
    assert.equal(damaged.code, 1);
    assert.match(damaged.stderr, /model\.checksum_mismatch: big\.bin of big has the SHA-256 [0-9a-f]{64}, and had/);
  });

  await t.test("a model that is removed with its files leaves the files that another model has", async () => {
    assert.equal((await send("DELETE", "/api/models/other?files=1")).status, 202);
    await until("it is gone", async () => (await send("GET", "/api/models/other")).status === 404);
    const kept = await berth.get("/api/models/gemma");
    assert.deepEqual(await readFile(isRecord(kept) ? String(kept["path"]) : ""), tiny);
    const freed: unknown = await (await send("DELETE", "/api/models/big?files=1")).json();
    assert.equal(isRecord(freed) ? freed["freed_bytes"] : undefined, 8 * mebibyte);
    await until("its content is gone", async () => (await stored("blobs")).length === 1);
  });

  await t.test("a model is fetched from a server of this machine over plain HTTP, by its manifest", async () => {
    const source = `http://127.0.0.1:${new URL(hub.server.url).port}/files/large.bin`;
    await writeFile(join(berth.configDir, "models/local.yaml"), `source: ${source}\n`);
    await until("the model is known", async () => (await send("GET", "/api/models/local")).ok);
    const ended = await runBerth(["model", "pull", "local"], env);
    assert.match(ended.stdout, /^local: pulled, /m, ended.stderr);
  });

  await t.test("unused files are collected, and models in a directory are found and declared", async () => {
    const lost = join(berth.modelsDir, `.berth/blobs/sha256-${"0".repeat(64)}`);
    await writeFile(lost, "12345");
    const dry = await runBerth(["model", "gc", "--dry-run"], env);
    assert.match(dry.stdout, /sha256-0{64}\s+blob\s+5 B\s+-\n5 B would be free\n$/);
    assert.match((await runBerth(["model", "gc"], env)).stdout, /5 B are free\n$/);
    await assert.rejects(readFile(lost), { code: "ENOENT" });
    const ggml = Buffer.alloc(64);
    ggml.writeUInt32LE(0x67676d6c);
    await writeFile(join(berth.modelsDir, "ggml-base.bin"), ggml);
    const found = await runBerth(["model", "scan", "--write"], env);
    assert.match(found.stdout, /^ggml-base\s+declared\s+64 B\s+stt /m, found.stderr);
    await until("it is a model", async () => (await send("GET", "/api/models/ggml-base")).ok);
    const removed = await runBerth(["model", "rm", "ggml-base", "--files", "--yes"], env);
    assert.equal(removed.stdout, "ggml-base: removed, with its files; 64 B are free\n", removed.stderr);
    await assert.rejects(readFile(join(berth.modelsDir, "ggml-base.bin")), { code: "ENOENT" });
  });

  await t.test("metrics count the fetched bytes", async () => {
    const text = await (await fetch(new URL("/metrics", berth.operatorUrl))).text();
    assert.match(text, /^berth_pull_bytes_total [1-9]\d*$/m);
    assert.match(text, /^berth_pull_stalls_total 0$/m);
  });

  await t.test("without a hub one line says what to check, and when a pull is tried again", async () => {
    await hub[Symbol.asyncDispose]();
    const { host } = new URL(hub.server.url);
    const line = `${host} cannot be reached: it refuses the connection (ECONNREFUSED); check the network, DNS and the proxy (HTTPS_PROXY), and HF_ENDPOINT`;
    const listed = await runBerth(["model", "pull", "acme/tiny"], env);
    assert.deepEqual([listed.code, listed.stderr.split("\n")[0]], [1, `model.pull_failed: ${line}`]);
    const id = await begin("large");
    const waiting = await until("its first attempt has failed", async () => {
      const job = await pulled(id);
      return typeof job["retry_at"] === "string" ? job : undefined;
    });
    const { state, error } = waiting;
    assert.deepEqual([state, isRecord(error) ? error["message"] : error], ["queued", line]);
    assert.equal((await send("DELETE", `/api/pulls/${id}`)).status, 202);
  });
});
