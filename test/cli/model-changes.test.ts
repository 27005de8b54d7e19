import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { presentJob } from "../../src/cli/pulls.ts";
import { apiDouble, failure, type ApiDouble } from "../support/api-double.ts";
import { runBerth, type Ended } from "../support/command.ts";
import { primary } from "./fixture.ts";

const job = {
  id: "p1",
  model: "qwen3-4b",
  state: "running",
  bytes_done: 1_048_576,
  bytes_total: 4_194_304,
  bytes_per_second: 524_288,
  eta_seconds: 6,
  error: null,
};

describe("berth model pull", () => {
  async function pulled(...states: readonly object[]): Promise<{ ended: Ended; api: ApiDouble }> {
    const rest = [...states];
    await using api = await apiDouble({
      "/api/models/pull": job,
      "/api/pulls/p1": (response) => response.end(JSON.stringify(rest.length > 1 ? rest.shift() : rest[0])),
    });
    return { ended: await runBerth(["model", "pull", "qwen3-4b"], { SVC_URL: api.url }), api };
  }

  it("stays until the model is there, with a plain line for every tenth", async () => {
    const { ended, api } = await pulled(
      { ...job, bytes_done: 2_200_000 },
      { ...job, state: "completed", bytes_done: 4_194_304 },
    );
    assert.deepEqual(ended, {
      code: 0,
      stdout: "qwen3-4b: pulled, 4.0 MiB\n",
      stderr: "qwen3-4b: running 20%\nqwen3-4b: running 50%\n",
    });
    assert.equal(api.bodies[0], '{"model":"qwen3-4b"}');
  });

  it("fails as the pull does", async () => {
    const error = { code: "model.checksum_mismatch", message: "the file is another one" };
    const { ended } = await pulled({ ...job, state: "failed", error });
    assert.deepEqual([ended.code, ended.stdout], [1, ""]);
    assert.match(
      ended.stderr,
      /\nmodel\.checksum_mismatch: the file is another one\nfetch it again; if it fails again, its source has changed\n$/,
    );
  });

  it("fails when somebody cancels it", async () => {
    const { ended } = await pulled({ ...job, state: "cancelled" });
    assert.match(
      ended.stderr,
      /\nmodel\.pull_failed: the pull was cancelled\ntry again, or fetch it from another source\n$/,
    );
  });

  it("goes away when told to, and takes sources and licences", async () => {
    await using api = await apiDouble({ "/api/models/pull": { ...job, state: "queued" } });
    const source = "hf://owner/repo/a.gguf";
    const ended = await runBerth(["model", "pull", source, "--detach", "--accept-license"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "qwen3-4b: pull p1 is queued\n", stderr: "" });
    assert.deepEqual(api.bodies, [JSON.stringify({ source, accept_license: true })]);
  });

  it("draws a bar on a terminal", () => {
    assert.deepEqual(presentJob(job), {
      fact: "qwen3-4b: running",
      detail: " [#####---------------] 25% of 4.0 MiB, 512.0 KiB/s, 6s left",
    });
    assert.equal(presentJob({ ...job, bytes_total: null, eta_seconds: null }).detail, " 1.0 MiB, 512.0 KiB/s");
  });
});

describe("berth model", () => {
  it("assign swaps a slot", async () => {
    await using api = await apiDouble({ "/api/models/vendor/a%3Afree/assign": primary });
    const ended = await runBerth(["model", "assign", "vendor/a:free", "primary"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "primary: swap to vendor/a:free requested\n", stderr: "" });
    assert.deepEqual([api.asked, api.bodies], [["POST /api/models/vendor/a%3Afree/assign"], ['{"slot":"primary"}']]);
  });

  it("rm removes, with files only when that is meant", async () => {
    await using api = await apiDouble({ "/api/models/a": {}, "/api/models/a?force=1&files=1": {} });
    const env = { SVC_URL: api.url };
    assert.equal((await runBerth(["model", "rm", "a"], env)).stdout, "a: removed\n");
    assert.equal((await runBerth(["model", "rm", "a", "--files"], env)).code, 2);
    assert.equal(
      (await runBerth(["model", "rm", "a", "--force", "--files", "--yes"], env)).stdout,
      "a: removed, with its files\n",
    );
    assert.deepEqual(api.asked, ["DELETE /api/models/a", "DELETE /api/models/a?force=1&files=1"]);
  });

  it("catalog prints what fits", async () => {
    const entry = {
      id: "qwen3-4b",
      size_bytes: 2_684_354_560,
      capabilities: ["chat"],
      license: "apache-2.0",
      fit: { verdict: "fits" },
    };
    await using api = await apiDouble({ "/api/models/catalog": { object: "list", data: [entry] } });
    assert.equal(
      (await runBerth(["model", "catalog"], { SVC_URL: api.url })).stdout,
      "ID        SIZE     CAPABILITIES  FIT   LICENSE\nqwen3-4b  2.5 GiB  chat          fits  apache-2.0\n",
    );
  });

  it("show prints a model's fields", async () => {
    await using api = await apiDouble({
      "/api/models/tiny": { id: "tiny", size_bytes: 5, capabilities: ["chat", "embed"], license: null },
    });
    assert.equal(
      (await runBerth(["model", "show", "tiny"], { SVC_URL: api.url })).stdout,
      "id:                 tiny\nsize bytes:         5\ncapabilities:       chat,embed\nlicense:            -\n",
    );
  });
});

it("a service that does not have a route may be older than the command", async () => {
  const missing = JSON.stringify(failure("system.not_found", "there is nothing at GET /api/models/catalog"));
  await using api = await apiDouble({
    "/api/models/catalog": (response) => {
      response.statusCode = 404;
      response.end(missing);
    },
  });
  assert.deepEqual(await runBerth(["model", "catalog"], { SVC_URL: api.url }), {
    code: 1,
    stdout: "",
    stderr:
      "system.not_found: there is nothing at GET /api/models/catalog\nthe service may be older than this command: compare `berth status` and `berth --version`\n",
  });
});
