import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { Client, CommandError } from "../../src/cli/client.ts";
import { presentJob, pull, pullBody } from "../../src/cli/pulls.ts";
import { apiDouble, failure, type ApiDouble } from "../support/api-double.ts";
import { runBerth, type Ended } from "../support/command.ts";
import { rejectionOf } from "../support/rejection.ts";
import { until } from "../support/until.ts";
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

  it("exits with the error of a failed pull", async () => {
    const error = { code: "model.checksum_mismatch", message: "the file is another one" };
    const { ended } = await pulled({ ...job, state: "failed", error });
    assert.deepEqual([ended.code, ended.stdout], [1, ""]);
    assert.match(
      ended.stderr,
      /\nmodel\.checksum_mismatch: the file is another one\nfetch it again; if it fails again, its source has changed\n$/,
    );
  });

  it("fails when another client cancels the pull", async () => {
    const { ended } = await pulled({ ...job, state: "cancelled" });
    assert.match(
      ended.stderr,
      /\nmodel\.pull_failed: the pull was cancelled\ntry again, or fetch it from another source\n$/,
    );
  });

  it("ends where no operator runs, and says that the next one goes on", async () => {
    const queued = { ...job, state: "queued", bytes_done: 0 };
    const heartbeat = (status: string) => ({ status, checks: { operator_heartbeat: { status, last: null } } });
    await using api = await apiDouble({
      "/api/models/pull": queued,
      "/api/pulls/p1": queued,
      "/api/health/system": heartbeat("ok"),
    });
    const client = new Client({ server: api.url, token: undefined });
    const lines: string[] = [];
    const screen = { write: (line: string) => void lines.push(line) };
    const ended = pull(client, { model: "qwen3-4b" }, { isDetached: false, screen, graceMs: 0 });
    const error = rejectionOf(ended, CommandError);
    await until("the operator was looked for", () => api.asked.includes("GET /api/health/system"));
    api.answer("/api/health/system", heartbeat("degraded"));
    const { code, message, next } = await error;
    assert.deepEqual(
      [code, message, next],
      [
        "model.pull_failed",
        "no operator runs, which alone fetches and checks models: qwen3-4b is queued",
        "start one (`berth operator`, or `berth up`), or see `berth status`: it goes on with what was asked",
      ],
    );
    assert.deepEqual(lines, ["qwen3-4b: queued 0%\n"]);
  });

  it("returns at once with --detach, and takes sources and licences", async () => {
    await using api = await apiDouble({ "/api/models/pull": { ...job, state: "queued" } });
    const source = "hf://owner/repo/a.gguf";
    const ended = await runBerth(["model", "pull", source, "--detach", "--accept-license"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "qwen3-4b: pull p1 is queued\n", stderr: "" });
    assert.deepEqual(api.bodies, [JSON.stringify({ source, accept_license: true })]);
  });

  it("sends any address as a source, so that the service can name the schemes that it fetches", () => {
    for (const source of ["s3://bucket/a.gguf", "git+https://h.test/a.gguf", "HF://owner/repo/a.gguf"]) {
      assert.deepEqual(pullBody(source, false), { source });
    }
    assert.deepEqual(pullBody("qwen3:4b", false), { model: "qwen3:4b" });
  });

  it("draws a bar on a terminal", () => {
    assert.deepEqual(presentJob(job), {
      fact: "qwen3-4b: running",
      detail: " [#####---------------] 25% of 4.0 MiB, 512.0 KiB/s, 6s left",
    });
    assert.equal(presentJob({ ...job, bytes_total: null, eta_seconds: null }).detail, " 1.0 MiB, 512.0 KiB/s");
  });
});

describe("berth pull", () => {
  const pull = {
    id: "p1",
    model: "a",
    state: "running",
    sources: ["hf://o/r/a.gguf"],
    for_slot: false,
    error: null,
    bytes_done: 1024,
    bytes_total: 4096,
    bytes_per_second: 512,
    eta_seconds: 6,
    ended_at: null,
  };
  const ended = { ...pull, id: "p0", state: "cancelled", ended_at: "2026-01-01T00:00:00.000Z" };

  it("list shows the progress of each pull", async () => {
    await using api = await apiDouble({ "/api/pulls": { object: "list", data: [pull] } });
    const shown = await runBerth(["pull", "list"], { SVC_URL: api.url });
    assert.equal(
      shown.stdout,
      "ID  MODEL  STATE    DONE                RATE     LEFT  FOR\np1  a      running  1.0 KiB of 4.0 KiB  512 B/s  6s    a person\n",
    );
  });

  it("pause, resume and cancel find the pull by its model or its id", async () => {
    const one = { "/api/pulls/p1/pause": pull, "/api/pulls/p1/resume": pull, "/api/pulls/p1": pull };
    await using api = await apiDouble({ "/api/pulls": { object: "list", data: [ended, pull] }, ...one });
    const env = { SVC_URL: api.url };
    assert.equal((await runBerth(["pull", "pause", "a"], env)).stdout, "a: pull paused\n");
    assert.equal((await runBerth(["pull", "resume", "p1"], env)).stdout, "a: pull resumed\n");
    assert.equal((await runBerth(["pull", "cancel", "a"], env)).stdout, "a: pull cancelled\n");
    assert.deepEqual(
      api.asked.filter((asked) => asked !== "GET /api/pulls"),
      ["POST /api/pulls/p1/pause", "POST /api/pulls/p1/resume", "DELETE /api/pulls/p1"],
    );
    const none = await runBerth(["pull", "pause", "b"], env);
    assert.match(none.stderr, /no pull has the id or fetches the model b\nsee `berth pull list`/);
  });

  it("pause says that a pull has ended already, and asks for an id where one model has several pulls", async () => {
    await using over = await apiDouble({ "/api/pulls": { object: "list", data: [ended] } });
    for (const what of ["a", "p0"]) {
      const { code, stderr } = await runBerth(["pull", "pause", what], { SVC_URL: over.url });
      assert.notEqual(code, 0);
      assert.match(
        stderr,
        /the pull of a is over: it was cancelled at 2026-01-01T00:00:00\.000Z\n`berth model pull a` fetches/,
      );
    }
    const other = { ...pull, id: "p2", sources: ["https://h.test/a.gguf"] };
    const one = { "/api/pulls/p2/pause": other };
    await using two = await apiDouble({ "/api/pulls": { object: "list", data: [pull, other, ended] }, ...one });
    const { stderr } = await runBerth(["pull", "pause", "a"], { SVC_URL: two.url });
    assert.match(
      stderr,
      /a is fetched from several sources: p1 \(hf:\/\/o\/r\/a\.gguf\), p2 \(https:\/\/h\.test\/a\.gguf\)/,
    );
    assert.equal((await runBerth(["pull", "pause", "p2"], { SVC_URL: two.url })).stdout, "a: pull paused\n");
    assert.deepEqual(
      two.asked.filter((asked) => asked !== "GET /api/pulls"),
      ["POST /api/pulls/p2/pause"],
    );
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
    const kept = [{ path: "/m/a.gguf", reason: "it lies outside" }];
    await using api = await apiDouble({
      "/api/models/a": {},
      "/api/models/a?force=1&files=1": { freed_bytes: 2048, kept },
    });
    const env = { SVC_URL: api.url };
    assert.equal((await runBerth(["model", "rm", "a"], env)).stdout, "a: removed\n");
    assert.equal((await runBerth(["model", "rm", "a", "--files"], env)).code, 2);
    assert.equal(
      (await runBerth(["model", "rm", "a", "--force", "--files", "--yes"], env)).stdout,
      "a: removed, with its files; 2.0 KiB are free\n/m/a.gguf stays: it lies outside\n",
    );
    assert.deepEqual(api.asked, ["DELETE /api/models/a", "DELETE /api/models/a?force=1&files=1"]);
  });

  it("rm removes nothing but models, whatever its ref names", async () => {
    await using api = await apiDouble({ "/api/slots/primary": {} });
    for (const ref of ["../slots/primary", "..", "a/./b"]) {
      const ended = await runBerth(["model", "rm", ref], { SVC_URL: api.url });
      assert.match(
        ended.stderr,
        /^usage: no name has a part "\." or "\.\.", as in \/api\/models\/.+\ncheck the name\n$/,
      );
      assert.notEqual(ended.code, 0);
    }
    assert.deepEqual(api.asked, []);
  });

  it("scan lists the found files, and the models that declare them", async () => {
    const row = {
      id: "a",
      state: "new",
      size_bytes: 2048,
      capabilities: ["chat"],
      files: ["/m/a.gguf"],
      message: null,
    };
    const data = [{ ...row, manifest: { name: "a", spec: { source: "file:///m/a.gguf" }, written: false } }];
    await using api = await apiDouble({ "/api/models/scan": { object: "list", data } });
    const ended = await runBerth(["model", "scan", "/m/"], { SVC_URL: api.url });
    assert.equal(
      ended.stdout,
      "ID  STATE  SIZE     CAPABILITIES  FILE       MESSAGE\n" +
        "a   new    2.0 KiB  chat          /m/a.gguf  -\n" +
        "1 new model: --write declares them, -o yaml shows the manifests\n",
    );
    assert.deepEqual(api.bodies, ['{"directories":["/m"],"write":false}']);
  });

  it("scan --write counts the models whose manifest could not be written", async () => {
    const row = { id: "a", state: "new", size_bytes: 2048, capabilities: [], files: ["/m/a.gguf"], message: null };
    const manifest = { name: "a", spec: { source: "file:///m/a.gguf" }, written: true };
    const failed = {
      ...row,
      id: "b",
      message: "its manifest b was not written",
      manifest: { ...manifest, written: false },
    };
    const data = [{ ...row, manifest }, failed];
    await using api = await apiDouble({ "/api/models/scan": { object: "list", data } });
    const ended = await runBerth(["model", "scan", "--write"], { SVC_URL: api.url });
    assert.match(ended.stdout, /^a\s+declared .*\nb\s+new .* its manifest b was not written\n/m);
    assert.match(ended.stdout, /\n1 new model declared, 1 not: MESSAGE says why\n$/);
  });

  it("scan of a directory elsewhere is refused with the remedy, and not sent for another token", async () => {
    const message = "/srv/m is not below the models directory /m: link it there (ln -s), or start with SVC_API_EXEC=1";
    const refuse = (details: object) => (response: ServerResponse) => {
      response.writeHead(403);
      response.end(JSON.stringify({ error: { code: "auth.forbidden", type: "permission_error", message, details } }));
    };
    await using api = await apiDouble({
      "/api/models/scan": refuse({ path: ["directories"] }),
      "/api/models/gc": refuse({ scope: "read" }),
    });
    assert.equal(
      (await runBerth(["model", "scan", "/srv/m"], { SVC_URL: api.url })).stderr,
      `auth.forbidden: ${message}\nno token changes that: do what the message says, on the machine of the service\n`,
    );
    const { stderr } = await runBerth(["model", "gc"], { SVC_URL: api.url });
    assert.match(stderr, /\na token of a higher scope may: `berth login`, or SVC_TOKEN\n$/);
  });

  it("gc lists the files that it deletes", async () => {
    const files = [{ path: "/m/x", kind: "partial", size_bytes: 2048, source: "hf://o/r/f" }];
    await using api = await apiDouble({ "/api/models/gc": { dry_run: true, bytes: 2048, files, kept: [] } });
    const ended = await runBerth(["model", "gc", "--dry-run"], { SVC_URL: api.url });
    assert.equal(
      ended.stdout,
      "FILE  KIND     SIZE     SOURCE\n/m/x  partial  2.0 KiB  hf://o/r/f\n2.0 KiB would be free\n",
    );
    assert.deepEqual(api.bodies, ['{"dry_run":true}']);
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

  it("show prints the entry of the catalogue of a model that is not here, and how to fetch it", async () => {
    const entry = { id: "qwen3-4b", license: "Apache-2.0", fit: { verdict: "fits", message: "needs 3 GiB" } };
    const unknown = failure("model.not_found", 'no model is called "qwen3-4b"; known are tiny');
    await using api = await apiDouble({
      "/api/models/catalog": { object: "list", data: [entry] },
      "/api/models/qwen3-4b": (response) => response.writeHead(404).end(JSON.stringify(unknown)),
      "/api/models/gone": (response) => response.writeHead(404).end(JSON.stringify(unknown)),
    });
    const { stdout } = await runBerth(["model", "show", "qwen3-4b"], { SVC_URL: api.url });
    assert.match(stdout, /^id: +qwen3-4b\nlicense: +Apache-2\.0\nfit: +fits\nstate: +in the catalogue, and not here: /);
    assert.match(stdout, /`berth model pull qwen3-4b` fetches it\n$/);
    const { stderr } = await runBerth(["model", "show", "gone"], { SVC_URL: api.url });
    assert.match(stderr, /^model\.not_found: .*; known are tiny\n/);
  });

  it("catalog prints with which settings a model fits, and why", async () => {
    const entry = {
      id: "qwen3-8b",
      size_bytes: 5_030_000_000,
      capabilities: ["chat"],
      last_benchmark: { levels: [{ clients: 1, tokens_per_second_each: 41.5 }], changed: "the engine was updated" },
      license: "apache-2.0",
      license_url: "https://a.test/",
      must_accept: false,
      unverified: ["source"],
      source: "hf://a/b/c.gguf",
      fit: {
        verdict: "fits_with",
        settings: { context_size: 8192 },
        message: "needs 7.0 GiB on CUDA0, which has 8.0 GiB",
        check: "berth probe -o wide",
      },
    };
    await using api = await apiDouble({ "/api/models/catalog": { object: "list", data: [entry] } });
    const { stdout } = await runBerth(["model", "catalog", "-o", "wide"], { SVC_URL: api.url });
    const [, row = ""] = stdout.split("\n");
    assert.deepEqual(row.split(/ {2,}/), [
      "qwen3-8b",
      "4.7 GiB",
      "chat",
      "fits with context_size 8192",
      "41.5 (void)",
      "apache-2.0",
      "needs 7.0 GiB on CUDA0, which has 8.0 GiB; check: berth probe -o wide",
      "no",
      "source",
      "hf://a/b/c.gguf",
      "https://a.test/",
    ]);
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

it("a missing route is reported as a service that may be older than the command", async () => {
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
