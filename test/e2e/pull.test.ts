import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startHub } from "../doubles/hub.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { envelopeOf } from "../support/envelope.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const mebibyte = 1024 * 1024;

async function send(berth: RunningBerth, method: string, path: string, body?: object): Promise<Response> {
  const json =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return await fetch(new URL(path, berth.url), { method, ...json });
}

async function pulled(berth: RunningBerth, id: string): Promise<Record<string, unknown>> {
  const found = await berth.get(`/api/pulls/${id}`);
  return isRecord(found) ? found : {};
}

async function begin(berth: RunningBerth, body: object): Promise<string> {
  const response = await send(berth, "POST", "/api/models/pull", body);
  const job: unknown = await response.json();
  assert.equal(response.status, 202, JSON.stringify(job));
  return isRecord(job) ? String(job["id"]) : "";
}

test("models are fetched when a slot needs one, or a person asks for one", async (t) => {
  await using directory = await tempDir();
  const path = join(directory.path, "tiny.gguf");
  await writeTinyModel(path);
  const tiny = await readFile(path);
  const big = randomBytes(8 * mebibyte);
  await using hub = await startHub({
    "tiny.gguf": tiny,
    "other.gguf": tiny,
    "big.bin": big,
    "gemma-3-4b-it-Q4_K_M.gguf": tiny,
    "large.bin": randomBytes(8 * mebibyte),
  });
  hub.hold();
  await using berth = await startBerth({
    env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
    prepare: async ({ configDir }) => {
      await mkdir(join(configDir, "models"));
      await writeFile(join(configDir, "models/tiny.yaml"), "source: hf://acme/tiny/tiny.gguf\n");
      await writeFile(join(configDir, "models/absent.yaml"), "source: hf://acme/tiny/absent.gguf\n");
      const licensed = "source: hf://ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf@main\n";
      await writeFile(join(configDir, "models/gemma.yaml"), licensed);
      await writeFile(join(configDir, "slots/c.toml"), '[model]\ndefault = "gemma"\n');
      await writeFile(join(configDir, "slots/a.toml"), '[model]\ndefault = "tiny"\n');
      await writeFile(join(configDir, "slots/b.toml"), '[model]\ndefault = "absent"\n');
    },
  });

  await t.test("a slot is pulling, with its progress, and then it starts", async () => {
    const slot = await berth.state("a", "pulling");
    const [reconciling] = (Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : []).filter(
      ({ type }) => type === "Reconciling",
    );
    assert.deepEqual([reconciling?.["status"], reconciling?.["reason"]], ["True", "Pulling"]);
    const job = await until("the pull of the slot is listed", async () => {
      const list = await berth.get("/api/pulls");
      const all = isRecord(list) && Array.isArray(list["data"]) ? list["data"].filter(isRecord) : [];
      return all.find((each) => each["model"] === "tiny" && each["bytes_total"] === tiny.length);
    });
    assert.deepEqual([job["for_slot"], job["state"]], [true, "running"]);
    const refused = await send(berth, "DELETE", `/api/pulls/${String(job["id"])}`);
    const { error } = await envelopeOf(refused);
    assert.deepEqual([error.code, error.details], ["model.in_use", { ref: "tiny", slots: ["a"] }]);
    hub.release();
    await berth.state("a", "ready", "idle", "serving");
    const answer = await send(berth, "POST", "/v1/chat/completions", {
      model: "a",
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 2,
    });
    assert.equal(answer.status, 200, await answer.text());
  });

  await t.test("a slot whose model the hub does not have says so, with what to do", async () => {
    const slot = await berth.state("b", "error");
    const conditions = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : [];
    const stalled = conditions.find(({ type }) => type === "Stalled");
    assert.equal(stalled?.["reason"], "SourceNotFound");
    assert.match(String(stalled?.["message"]), /acme\/tiny has no such file or repository, or is private/);
  });

  await t.test("a licence that must be accepted holds its slot back until a person accepts it", async () => {
    const slot = await berth.state("c", "error");
    const conditions = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : [];
    const stalled = conditions.find(({ type, status }) => type === "Stalled" && status === "True");
    assert.equal(stalled?.["reason"], "LicenseNotAccepted");
    const message = String(stalled?.["message"]);
    assert.match(message, /^the licence of Gemma 3 4B, 4 bits must be accepted first: Gemma Terms of Use, https:/);
    assert.match(message, /then run `berth model pull gemma --accept-license`/);
    assert.equal(
      hub.server.asked.filter(({ path }) => path.includes("gemma")).length,
      0,
      "nothing was asked of the hub",
    );
    const env = { SVC_URL: berth.url };
    const refused = await runBerth(["model", "pull", "gemma"], env);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /must be accepted first: .* \(--accept-license\)/);
    const accepted = await runBerth(["model", "pull", "gemma", "--accept-license"], env);
    assert.equal(accepted.code, 0, accepted.stderr);
    await berth.state("c", "ready", "idle", "serving");
  });

  await t.test("berth model pull downloads no file that the store has already", async () => {
    hub.server.asked.length = 0;
    const ended = await runBerth(["model", "pull", "hf://acme/tiny/other.gguf"], { SVC_URL: berth.url });
    assert.equal(ended.code, 0, ended.stderr);
    assert.match(ended.stdout, /^other: pulled, /);
    assert.deepEqual(
      hub.server.asked.filter(({ path }) => path.startsWith("/signed/")),
      [],
    );
    const model = await until("the model is listed", async () => {
      const found = await berth.get("/api/models/other");
      return isRecord(found) && found["state"] === "available" ? found : undefined;
    });
    assert.deepEqual([model["source"], model["size_bytes"]], ["hf://acme/tiny/other.gguf", tiny.length]);
  });

  await t.test("a pull is paused and resumed, survives kill -9 of the operator, and is cancelled", async () => {
    hub.hold();
    const source = "hf://acme/tiny/big.bin";
    const id = await begin(berth, { source, ref: "big" });
    assert.equal(await begin(berth, { source, ref: "big" }), id, "who asks again joins");
    await until("half of it is there", async () => Number((await pulled(berth, id))["bytes_done"]) >= 3 * mebibyte);
    assert.equal((await send(berth, "POST", `/api/pulls/${id}/pause`)).status, 202);
    await until("it is paused", async () => (await pulled(berth, id))["state"] === "paused");
    assert.equal((await send(berth, "POST", `/api/pulls/${id}/resume`)).status, 202);
    await until("it goes on", async () => (await pulled(berth, id))["state"] === "running");
    const record: unknown = JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8"));
    process.kill(isRecord(record) ? Number(record["pid"]) : 0, "SIGKILL");
    hub.server.asked.length = 0;
    hub.release();
    await until("it is whole", async () => (await pulled(berth, id))["state"] === "completed");
    const [first] = hub.server.asked.filter(({ path }) => path.startsWith("/signed/"));
    assert.notEqual(first?.range?.startsWith("bytes=0-"), true, "what was there is not fetched again");
    const other = await begin(berth, { source: "hf://acme/tiny/absent.bin" });
    const failed = await until("it has failed", async () => {
      const job = await pulled(berth, other);
      return job["state"] === "failed" ? job : undefined;
    });
    assert.equal(isRecord(failed["error"]) ? failed["error"]["code"] : "", "model.pull_failed");
    hub.hold();
    const third = await begin(berth, { source: "hf://acme/tiny/large.bin" });
    await until("some of it is there", async () => Number((await pulled(berth, third))["bytes_done"]) > 0);
    assert.equal((await readdir(join(berth.modelsDir, ".berth/partial"))).length, 1);
    assert.equal((await send(berth, "DELETE", `/api/pulls/${third}`)).status, 202);
    await until("it is cancelled", async () => (await pulled(berth, third))["state"] === "cancelled");
    assert.deepEqual(await readdir(join(berth.modelsDir, ".berth/partial")), []);
    assert.equal((await send(berth, "DELETE", `/api/pulls/${third}`)).status, 409);
  });

  await t.test("what may not be fetched over this API is refused", async () => {
    const refused = async (body: object): Promise<[number, string]> => {
      const response = await send(berth, "POST", "/api/models/pull", body);
      return [response.status, (await envelopeOf(response)).error.code];
    };
    assert.deepEqual(await refused({ model: "nobody" }), [404, "model.not_found"]);
    assert.deepEqual(await refused({ source: "file:///etc/passwd" }), [422, "dispatch.invalid_request"]);
    assert.deepEqual(await refused({ source: "hf://acme/tiny" }), [422, "dispatch.invalid_request"]);
    assert.deepEqual(await refused({ source: "https://169.254.169.254/x" }), [403, "auth.forbidden"]);
    assert.deepEqual(await refused({}), [400, "dispatch.invalid_request"]);
    assert.deepEqual(await refused({ source: "hf://acme/tiny/x.gguf", ref: "tiny" }), [
      409,
      "dispatch.invalid_request",
    ]);
  });

  await t.test("berth model verify reads its files, and says which has changed", async () => {
    const env = { SVC_URL: berth.url };
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
    const removed = await send(berth, "DELETE", "/api/models/other?files=1");
    assert.equal(removed.status, 202, await removed.text());
    await until("it is gone", async () => (await send(berth, "GET", "/api/models/other")).status === 404);
    const kept = await berth.get("/api/models/tiny");
    assert.deepEqual(await readFile(isRecord(kept) ? String(kept["path"]) : ""), tiny);
    const freed: unknown = await (await send(berth, "DELETE", "/api/models/big?files=1")).json();
    assert.equal(isRecord(freed) ? freed["freed_bytes"] : undefined, 8 * mebibyte);
    await until("its content is gone", async () => (await readdir(join(berth.modelsDir, ".berth/blobs"))).length === 1);
  });

  await t.test("a model is fetched from a server of this machine over plain HTTP", async () => {
    hub.release();
    const source = `http://127.0.0.1:${new URL(hub.server.url).port}/files/large.bin`;
    await writeFile(join(berth.configDir, "models/local.yaml"), `source: ${source}\n`);
    await until("the model is known", async () => (await send(berth, "GET", "/api/models/local")).ok);
    const id = await begin(berth, { model: "local" });
    await until("the pull has ended", async () => (await pulled(berth, id))["ended_at"] !== null);
    const { state, error } = await pulled(berth, id);
    assert.deepEqual([state, error], ["completed", null]);
    await send(berth, "DELETE", "/api/models/local?files=1");
    await until("its content is gone", async () => (await readdir(join(berth.modelsDir, ".berth/blobs"))).length === 1);
  });

  await t.test("unused files are collected, and models in a directory are found and declared", async () => {
    const env = { SVC_URL: berth.url };
    const lost = join(berth.modelsDir, `.berth/blobs/sha256-${"0".repeat(64)}`);
    await writeFile(lost, "12345");
    const dry = await runBerth(["model", "gc", "--dry-run"], env);
    assert.match(dry.stdout, /sha256-0{64}\s+blob\s+5 B\s+-\n5 B would be free\n$/);
    assert.equal(await readFile(lost, "utf8"), "12345");
    assert.match((await runBerth(["model", "gc"], env)).stdout, /5 B are free\n$/);
    await assert.rejects(readFile(lost), { code: "ENOENT" });
    assert.equal((await runBerth(["model", "gc"], env)).stdout, "nothing to delete\n");
    const ggml = Buffer.alloc(64);
    ggml.writeUInt32LE(0x67676d6c);
    await writeFile(join(berth.modelsDir, "ggml-base.bin"), ggml);
    const found = await runBerth(["model", "scan", "--write"], env);
    assert.match(found.stdout, /^ggml-base\s+declared\s+64 B\s+stt /m, found.stderr);
    await until("it is a model", async () => (await send(berth, "GET", "/api/models/ggml-base")).ok);
    const removed = await runBerth(["model", "rm", "ggml-base", "--files", "--yes"], env);
    assert.equal(removed.stdout, "ggml-base: removed, with its files; 64 B are free\n", removed.stderr);
    await assert.rejects(readFile(join(berth.modelsDir, "ggml-base.bin")), { code: "ENOENT" });
  });

  await t.test("metrics count the fetched bytes", async () => {
    const text = await (await fetch(new URL("/metrics", berth.operatorUrl))).text();
    assert.match(text, /^berth_pull_bytes_total [1-9]\d*$/m);
    assert.match(text, /^berth_pull_stalls_total 0$/m);
  });
});
