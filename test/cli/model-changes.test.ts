import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client, CommandError } from "../../src/cli/client.ts";
import { presentJob, pull } from "../../src/cli/pulls.ts";
import { apiDouble } from "../support/api-double.ts";
import { rejectionOf } from "../support/rejection.ts";
import { until } from "../support/until.ts";
import { done, failed, listOf, primary, refused, told, type Answers, type Told } from "./fixture.ts";

const progress = { bytes_done: 1_048_576, bytes_total: 4_194_304, bytes_per_second: 524_288, eta_seconds: 6 };
const job = { id: "p1", model: "qwen3-4b", state: "running", error: null, ...progress };

describe("berth model pull", () => {
  const pulled = (...states: readonly object[]): Promise<Told> => {
    const rest = [...states];
    const answers: Answers = {
      "/api/models/pull": job,
      "/api/pulls/p1": (response) => response.end(JSON.stringify(rest.length > 1 ? rest.shift() : rest[0])),
    };
    return told(answers, "model pull qwen3-4b");
  };
  const mismatch = { code: "model.checksum_mismatch", message: "the file is another one" };

  it("stays until the model is there, with a plain line for every tenth", async () => {
    const completed = { ...job, state: "completed", bytes_done: 4_194_304 };
    const { ended, bodies } = await pulled({ ...job, bytes_done: 2_200_000 }, completed);
    assert.deepEqual(ended, done("qwen3-4b: pulled, 4.0 MiB\n", "qwen3-4b: running 20%\nqwen3-4b: running 50%\n"));
    assert.equal(bodies[0], '{"model":"qwen3-4b"}');
  });

  for (const [how, end, said] of [
    [
      "fails",
      { state: "failed", error: mismatch },
      /\nmodel\.checksum_mismatch: the file is another one\nfetch it again; if it fails again, its source has changed\n$/,
    ],
    [
      "is cancelled by another client",
      { state: "cancelled" },
      /\nmodel\.pull_failed: the pull was cancelled\ntry again, or fetch it from another source\n$/,
    ],
  ] as const)
    it(`fails where the pull ${how}`, async () => {
      const { code, stdout, stderr } = await pulled({ ...job, ...end });
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, said);
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

  it("returns at once with --detach, and takes addresses and licences", async () => {
    const source = "hf://owner/repo/a.gguf";
    const answers = { "/api/models/pull": { ...job, state: "queued" } };
    const { ended, bodies } = await told(answers, `model pull ${source} --detach --accept-license`);
    assert.deepEqual(ended, done("qwen3-4b: pull p1 is queued\n"));
    assert.deepEqual(bodies, [JSON.stringify({ model: source, accept_license: true })]);
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
  const figures = { bytes_done: 1024, bytes_total: 4096, bytes_per_second: 512, eta_seconds: 6 };
  const declared = { model: "a", sources: ["hf://o/r/a.gguf"], for_slot: false };
  const running = { id: "p1", state: "running", error: null, ended_at: null, ...declared, ...figures };
  const ended = { ...running, id: "p0", state: "cancelled", ended_at: "2026-01-01T00:00:00.000Z" };
  const other = { ...running, id: "p2", sources: ["https://h.test/a.gguf"] };

  it("list shows the progress of each pull", async () => {
    assert.equal(
      (await told({ "/api/pulls": listOf(running) }, "pull list")).stdout,
      "ID  MODEL  STATE    DONE                RATE     LEFT  FOR\np1  a      running  1.0 KiB of 4.0 KiB  512 B/s  6s    a person\n",
    );
  });

  for (const [line, pulls, asked, said] of [
    ["pause a", [ended, running], "POST /api/pulls/p1/pause", "a: pull paused\n"],
    ["resume p1", [ended, running], "POST /api/pulls/p1/resume", "a: pull resumed\n"],
    ["cancel a", [ended, running], "DELETE /api/pulls/p1", "a: pull cancelled\n"],
    ["pause p2", [running, other, ended], "POST /api/pulls/p2/pause", "a: pull paused\n"],
  ] as const)
    it(`${line} finds the pull by its model or its id`, async () => {
      const [, path = ""] = asked.split(" ");
      const found = await told({ "/api/pulls": listOf(...pulls), [path]: running }, `pull ${line}`);
      assert.deepEqual([found.ended, found.asked], [done(said), ["GET /api/pulls", asked]]);
    });

  const over = /the pull of a is over: it was cancelled at 2026-01-01T00:00:00\.000Z\n`berth model pull a` fetches/;
  for (const [line, pulls, why] of [
    ["pause b", [ended, running], /no pull has the id or fetches the model b\nsee `berth pull list`/],
    ["pause a", [ended], over],
    ["pause p0", [ended], over],
    [
      "pause a",
      [running, other, ended],
      /a is fetched from several sources: p1 \(hf:\/\/o\/r\/a\.gguf\), p2 \(https:\/\/h\.test\/a\.gguf\)/,
    ],
  ] as const)
    it(`${line} says why it is not done: ${why.source.slice(0, 30)}…`, async () => {
      const { code, stderr, asked } = await told({ "/api/pulls": listOf(...pulls) }, `pull ${line}`);
      assert.deepEqual([code, asked], [1, ["GET /api/pulls"]]);
      assert.match(stderr, why);
    });
});

describe("berth model", () => {
  it("assign swaps a slot", async () => {
    const path = "/api/models/vendor/a%3Afree/assign";
    const { ended, asked, bodies } = await told({ [path]: primary }, "model assign vendor/a:free primary");
    assert.deepEqual(ended, done("primary: swap to vendor/a:free requested\n"));
    assert.deepEqual([asked, bodies], [[`POST ${path}`], ['{"slot":"primary"}']]);
  });

  const kept = [{ path: "/m/a.gguf", reason: "it lies outside" }];
  for (const [line, path, answer, said] of [
    ["rm a", "/api/models/a", {}, "a: removed\n"],
    [
      "rm a --force --files --yes",
      "/api/models/a?force=1&files=1",
      { freed_bytes: 2048, kept },
      "a: removed, with its files; 2.0 KiB are free\n/m/a.gguf stays: it lies outside\n",
    ],
  ] as const)
    it(`${line} removes`, async () => {
      const { ended, asked } = await told({ [path]: answer }, `model ${line}`);
      assert.deepEqual([ended, asked], [done(said), [`DELETE ${path}`]]);
    });

  it("rm removes no files where nobody can be asked", async () => {
    const { code, asked } = await told({ "/api/models/a": {} }, "model rm a --files");
    assert.deepEqual([code, asked], [2, []]);
  });

  it("rm removes nothing but models", async () => {
    const { code, stderr, asked } = await told({ "/api/models": {} }, ["model", "rm", ".."]);
    assert.deepEqual([code, stderr, asked], [2, "usage: nothing can be called ..\ncheck the name\n", []]);
    for (const ref of ["../slots/primary", "a/./b"]) {
      const { asked: paths } = await told({ "/api/slots/primary": {} }, ["model", "rm", ref]);
      assert.deepEqual(paths, [`DELETE /api/models/${encodeURIComponent(ref)}`]);
    }
  });

  const found = {
    id: "a",
    state: "new",
    size_bytes: 2048,
    capabilities: ["chat"],
    files: ["/m/a.gguf"],
    message: null,
  };
  const manifest = { name: "a", spec: { source: "file:///m/a.gguf" }, written: false };

  it("scan lists the found files, and the models that declare them", async () => {
    const { stdout, bodies } = await told({ "/api/models/scan": listOf({ ...found, manifest }) }, "model scan /m/");
    assert.equal(
      stdout,
      "ID  STATE  SIZE     CAPABILITIES  FILE       MESSAGE\n" +
        "a   new    2.0 KiB  chat          /m/a.gguf  -\n" +
        "1 new model: --write declares them, -o yaml shows the manifests\n",
    );
    assert.deepEqual(bodies, ['{"directories":["/m"],"write":false}']);
  });

  it("scan --write counts the models whose manifest could not be written", async () => {
    const written = { ...found, manifest: { ...manifest, written: true } };
    const unwritten = { ...found, id: "b", message: "its manifest b was not written", manifest };
    const { stdout } = await told({ "/api/models/scan": listOf(written, unwritten) }, "model scan --write");
    assert.match(stdout, /^a\s+declared .*\nb\s+new .* its manifest b was not written\n/m);
    assert.match(stdout, /\n1 new model declared, 1 not: MESSAGE says why\n$/);
  });

  for (const [line, path, details, next] of [
    [
      "scan /srv/m",
      "/api/models/scan",
      { path: ["directories"] },
      "no token changes that: do what the message says, on the machine of the service",
    ],
    ["gc", "/api/models/gc", { scope: "read" }, "a token of a higher scope may: `berth login`, or SVC_TOKEN"],
  ] as const)
    it(`${line}, where it is forbidden, names the remedy`, async () => {
      const message =
        "/srv/m is not below the models directory /m: link it there (ln -s), or start with SVC_API_EXEC=1";
      const { ended } = await told({ [path]: refused(403, "auth.forbidden", message, details) }, `model ${line}`);
      assert.deepEqual(ended, failed(`auth.forbidden: ${message}\n${next}\n`));
    });

  it("gc lists the files that it deletes", async () => {
    const files = [{ path: "/m/x", kind: "partial", size_bytes: 2048, source: "hf://o/r/f" }];
    const answer = { dry_run: true, bytes: 2048, files, kept: [] };
    const { stdout, bodies } = await told({ "/api/models/gc": answer }, "model gc --dry-run");
    assert.equal(stdout, "FILE  KIND     SIZE     SOURCE\n/m/x  partial  2.0 KiB  hf://o/r/f\n2.0 KiB would be free\n");
    assert.deepEqual(bodies, ['{"dry_run":true}']);
  });

  const entry = { id: "qwen3-4b", size_bytes: 2_684_354_560, capabilities: ["chat"], license: "apache-2.0" };

  it("catalog prints what fits, and with -o wide with which settings and why", async () => {
    const fits = { ...entry, fit: { verdict: "fits" } };
    const fitsWith = {
      ...entry,
      id: "qwen3-8b",
      license_url: "https://a.test/",
      must_accept: false,
      unverified: ["source"],
      last_benchmark: { levels: [{ clients: 1, tokens_per_second_each: 41.5 }], changed: "the engine was updated" },
      source: "hf://a/b/c.gguf",
      fit: {
        verdict: "fits_with",
        settings: { context_size: 8192 },
        message: "needs 7.0 GiB on CUDA0, which has 8.0 GiB",
        check: "berth probe -o wide",
      },
    };
    assert.equal(
      (await told({ "/api/models/catalog": listOf(fits) }, "model catalog")).stdout,
      "ID        SIZE     CAPABILITIES  FIT   LICENSE\nqwen3-4b  2.5 GiB  chat          fits  apache-2.0\n",
    );
    const { stdout } = await told({ "/api/models/catalog": listOf(fitsWith) }, "model catalog -o wide");
    assert.equal(
      stdout.split("\n")[1]?.replaceAll(/ {2,}/g, "  "),
      "qwen3-8b  2.5 GiB  chat  fits with context_size 8192  41.5 (void)  apache-2.0  " +
        "needs 7.0 GiB on CUDA0, which has 8.0 GiB; check: berth probe -o wide  no  source  hf://a/b/c.gguf  https://a.test/",
    );
  });

  it("show prints a model's fields", async () => {
    const tiny = { id: "tiny", size_bytes: 5, capabilities: ["chat", "embed"], license: null };
    assert.equal(
      (await told({ "/api/models/tiny": tiny }, "model show tiny")).stdout,
      "id:                 tiny\nsize bytes:         5\ncapabilities:       chat,embed\nlicense:            -\n",
    );
  });

  it("show prints the entry of the catalogue of a model that is not here, and how to fetch it", async () => {
    const unknown = refused(404, "model.not_found", 'no model is called "qwen3-4b"; known are tiny');
    const answers = {
      "/api/models/catalog": listOf({
        id: "qwen3-4b",
        license: "Apache-2.0",
        must_accept: false,
        unverified: ["source", "aboutBytes", "shape"],
        is_here: false,
        note: null,
        fit: { verdict: "does_not_fit", message: "needs 3 GiB" },
      }),
      "/api/models/qwen3-4b": unknown,
      "/api/models/gone": unknown,
      "/api/models/qwen3%3A4b": unknown,
      "/api/models/o/r": unknown,
    };
    const { stdout } = await told(answers, "model show qwen3-4b");
    // In the words of the page Models, and without what a person does not need.
    assert.deepEqual(stdout.split(/:? {2,}|\n/), [
      "id",
      "qwen3-4b",
      "license",
      "Apache-2.0",
      "fit",
      "does not fit: needs 3 GiB",
      "not compared",
      "address, size, memory of its context, with the publisher's page",
      "state",
      "in the catalogue, and not here: `berth model pull qwen3-4b` fetches it",
      "",
    ]);
    const gone = /^model\.not_found: .*; known are tiny\nsee `berth model list`, and `berth model catalog` for those/;
    assert.match((await told(answers, "model show gone")).stderr, gone);
    const near =
      /; known are tiny\nthe catalogue has qwen3-4b: `berth model show qwen3-4b`, or `berth model pull qwen3-4b` /;
    assert.match((await told(answers, "model show qwen3:4b")).stderr, near);
    assert.match((await told(answers, "model show o/r")).stderr, /\n`berth model pull o\/r` lists what the hub has/);
  });
});
