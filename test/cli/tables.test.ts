import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { apiDouble, failure } from "../support/api-double.ts";
import { groupShow, groupTable } from "../../src/cli/groups.ts";
import { Client } from "../../src/cli/client.ts";
import { upstreamTable } from "../../src/cli/upstreams.ts";
import { runBerth } from "../support/command.ts";
import { coder, model, primary, slots } from "./fixture.ts";

const slotTable = `NAME     STATE  READY            MODEL     PORT  RESTARTS  UP
primary  ready  True/Loaded      tiny      8081  1         1h2m
coder    error  False/CrashLoop  qwen3:4b  -     4         -
`;

describe("berth slot list", () => {
  const outputs: readonly (readonly [args: readonly string[], text: string])[] = [
    [[], slotTable],
    [
      ["-o", "wide"],
      `NAME     STATE  READY            MODEL     ENGINE  RUNTIME  PORT  RESTARTS  IN-FLIGHT  UP    BENCH TOK/S  LAST ERROR
primary  ready  True/Loaded      tiny      llama   process  8081  1         2          1h2m  -            -
coder    error  False/CrashLoop  qwen3:4b  llama   process  -     4         0          -     -            exited with code 1: failed to load model; failed to load mo…
`,
    ],
    [["-o", "name"], "primary\ncoder\n"],
    [["-o", "json"], `${JSON.stringify(slots, null, 2)}\n`],
  ];
  for (const [args, stdout] of outputs) {
    it(`prints ${args.join(" ") || "a table"}`, async () => {
      await using api = await apiDouble({ "/api/slots": slots });
      const ended = await runBerth(["slot", "list", ...args], { SVC_URL: api.url });
      assert.deepEqual(ended, { code: 0, stdout, stderr: "" });
      assert.deepEqual(api.asked, ["GET /api/slots"]);
    });
  }

  it("colours states where colours are wanted, and never where NO_COLOR is set", async () => {
    await using api = await apiDouble({ "/api/slots": slots });
    const shown = async (env: NodeJS.ProcessEnv): Promise<string> =>
      (await runBerth(["slot", "list"], { SVC_URL: api.url, ...env })).stdout;
    const coloured = await shown({ FORCE_COLOR: "1" });
    assert.ok(coloured.includes("primary  \u001B[32mready\u001B[39m  True/Loaded "), coloured);
    assert.ok(coloured.includes("coder    \u001B[31merror\u001B[39m  False/CrashLoop "), coloured);
    assert.equal(await shown({ NO_COLOR: "1" }), slotTable);
  });

  it("says why a slot that answers is degraded", async () => {
    const conditions = [
      ...primary.conditions,
      { ...primary.conditions[0], type: "Degraded", reason: "NoChatTemplate" },
    ];
    await using api = await apiDouble({ "/api/slots": { object: "list", data: [{ ...primary, conditions }] } });
    const { stdout } = await runBerth(["slot", "list"], { SVC_URL: api.url });
    assert.match(stdout, /^primary  ready  True\/NoChatTemplate  /m);
  });

  it("prints YAML that reads back as the answer", async () => {
    await using api = await apiDouble({ "/api/slots": slots });
    const { stdout } = await runBerth(["slot", "list", "-o", "yaml"], { SVC_URL: api.url });
    assert.deepEqual(parse(stdout), slots);
  });

  it("prints titles alone where there are no slots", async () => {
    await using api = await apiDouble({ "/api/slots": { object: "list", data: [] } });
    const { stdout } = await runBerth(["slot", "list"], { SVC_URL: api.url });
    assert.equal(stdout, "NAME  STATE  READY  MODEL  PORT  RESTARTS  UP\n");
  });
});

describe("berth slot show", () => {
  it("prints fields, conditions, the last error and transitions", async () => {
    const transitions = [
      { at: "2026-11-21T06:59:59.000Z", from: "warming", to: "error", reason: "Exited", message: "exited with code 1" },
    ];
    const shown = { ...coder, last_error: { ...coder.last_error, message: "exited with code 1" }, transitions };
    await using api = await apiDouble({ "/api/slots/coder": shown });
    const { stdout } = await runBerth(["slot", "show", "coder"], { SVC_URL: api.url });
    assert.equal(
      stdout,
      `name:               coder
state:              error
model:              qwen3:4b
engine:             llama
backend:            cpu
runtime:            process
endpoint:           -
enabled:            true
load:               always
file:               /etc/berth/slots/primary.toml
generation:         3
restarts:           4
failures:           4
next retry at:      2026-11-21T07:01:00.000Z
last load seconds:  -
conditions:
  Ready         False    CrashLoop             exited with code 1
last error:         2026-11-21T07:00:00.000Z Exited: exited with code 1
transitions:
  2026-11-21T06:59:59.000Z  warming → error: exited with code 1
`,
    );
  });

  it("strips control characters from an engine's text", async () => {
    const wrote = "\u001B[2Jgone\u001B]0;title\u0007\nNAME  STATE";
    const hostile = { ...coder, model: wrote, last_error: { ...coder.last_error, message: wrote } };
    await using api = await apiDouble({
      "/api/slots/coder": hostile,
      "/api/slots": { object: "list", data: [hostile] },
      "/api/slots/nope": (response) => {
        response.statusCode = 404;
        response.end(JSON.stringify(failure("slot.not_found", wrote)));
      },
    });
    for (const args of [
      ["show", "coder"],
      ["list", "-o", "wide"],
      ["show", "nope"],
    ]) {
      const { stdout, stderr } = await runBerth(["slot", ...args], { SVC_URL: api.url });
      assert.doesNotMatch(`${stdout}${stderr}`, /[^\P{Cc}\n]/u, args.join(" "));
      assert.doesNotMatch(`${stdout}${stderr}`, /^NAME {2}STATE$/m);
      assert.match(`${stdout}${stderr}`, / \[2Jgone \]0;title NAME {2}STATE/);
    }
    const { stdout } = await runBerth(["slot", "show", "coder", "-o", "json"], { SVC_URL: api.url });
    assert.deepEqual(JSON.parse(stdout), hostile, "data is data");
  });

  it("prints the memory of an engine where the service reports it", async () => {
    await using api = await apiDouble({ "/api/slots/primary": { ...primary, memory_bytes: 1_610_612_736 } });
    const { stdout } = await runBerth(["slot", "show", "primary"], { SVC_URL: api.url });
    assert.match(stdout, /^memory: {13}1\.5 GiB$/m);
  });

  it("prints the devices of an engine, and its memory on each GPU", async () => {
    const compute = { devices: ["CUDA0"], layers_offloaded: 26, layers_total: 33, buffers: [] };
    const memory = { host_bytes: 1024, devices: [{ id: "0000:00:06.0", bytes: 9_655_287_808 }] };
    const onCpu = { devices: [], layers_offloaded: 0, layers_total: 37, buffers: [] };
    await using api = await apiDouble({
      "/api/slots/primary": { ...primary, compute, memory },
      "/api/slots/coder": { ...coder, compute: onCpu, memory: null },
    });
    const show = async (name: string): Promise<string> =>
      (await runBerth(["slot", "show", name], { SVC_URL: api.url })).stdout;
    assert.match(
      await show("primary"),
      /^computes on: {8}CUDA0, 26 of 33 layers on a GPU\nGPU memory: {9}9\.0 GiB of 0000:00:06\.0$/m,
    );
    assert.match(await show("coder"), /^computes on: {8}CPU, 0 of 37 layers on a GPU$/m);
  });

  it("names the image and the container of a slot that runs in a container", async () => {
    const containerId = "0123456789abcdef0123";
    const container = {
      ...primary,
      image: "ghcr.io/a/b",
      image_digest: "sha256:abc",
      processes: [
        { role: "main", containerId },
        { role: "rerank", containerId: "f".repeat(64) },
      ],
    };
    await using api = await apiDouble({ "/api/slots/primary": container });
    const { stdout } = await runBerth(["slot", "show", "primary"], { SVC_URL: api.url });
    assert.match(stdout, /^image: +ghcr\.io\/a\/b\nimage digest: +sha256:abc$/m);
    assert.match(stdout, /^container: +0123456789ab\ncontainer \(rerank\): ffffffffffff$/m);
  });

  it("lists the replicas of a slot with where each answers", async () => {
    const at = (port: number): string => `http://127.0.0.1:${port}`;
    const processes = [
      { role: "main", ordinal: 0, endpoint: at(8081), isReady: true },
      { role: "main", ordinal: 1, endpoint: at(8082), isReady: false, drainingSince: "2026-01-01T00:00:00.000Z" },
      { role: "main", ordinal: 2, endpoint: at(8083), isReady: false },
    ];
    await using api = await apiDouble({ "/api/slots/primary": { ...primary, processes } });
    const { stdout } = await runBerth(["slot", "show", "primary"], { SVC_URL: api.url });
    const lines = [
      "processes:",
      `  main          ready      ${at(8081)}`,
      `  main-1        draining   ${at(8082)}`,
      `  main-2        not ready  ${at(8083)}`,
    ];
    assert.ok(stdout.includes(`${lines.join("\n")}\n`), stdout);
  });

  it("says what to do about an unknown slot", async () => {
    await using api = await apiDouble({});
    assert.deepEqual(await runBerth(["slot", "show", "nope"], { SVC_URL: api.url }), {
      code: 1,
      stdout: "",
      stderr: "slot.not_found: there is no such slot\nsee `berth slot list`\n",
    });
  });
});

describe("berth slot plan", () => {
  it("prints the plan's own text", async () => {
    const text =
      "primary: Starting: it is always loaded\n  1. start main: it is not running\n     llama-server --port 8081\n";
    await using api = await apiDouble({ "/api/slots/primary/plan": { slot: "primary", plan: {}, text } });
    assert.equal((await runBerth(["slot", "plan", "primary"], { SVC_URL: api.url })).stdout, text);
  });
});

describe("berth status", () => {
  const answers = {
    "/api/status": { name: "berth", version: "0.1.0", uptime_seconds: 75, ready: true },
    "/api/slots": slots,
  };

  it("prints the service in a line and the slots below", async () => {
    await using api = await apiDouble({ ...answers, "/api/health/system": { status: "ok", checks: {} } });
    const ended = await runBerth(["--server", api.url, "status"]);
    assert.deepEqual(ended, { code: 0, stdout: `berth 0.1.0, up 1m15s, ok\n\n${slotTable}`, stderr: "" });
  });

  it("prints names alone where names are asked for", async () => {
    const plan = { slot: "coder", plan: {}, text: "coder: Starting\n" };
    await using api = await apiDouble({
      ...answers,
      "/api/health/system": { status: "ok", checks: {} },
      "/api/slots/coder/plan": plan,
    });
    const status = await runBerth(["status", "-o", "name"], { SVC_URL: api.url });
    assert.deepEqual(status, { code: 0, stdout: "primary\ncoder\n", stderr: "" });
    assert.equal((await runBerth(["slot", "plan", "coder", "-o", "name"], { SVC_URL: api.url })).stdout, "coder\n");
  });

  it("names each wrong manifest, where the token may read them", async () => {
    const checks = { store: { status: "degraded", reasons: ["InvalidSpec", "InvalidName"] } };
    const file = "/etc/berth/slots/Bad.toml";
    const diagnostics = [{ reason: "InvalidName", file, line: 2, column: 1, message: "no slot is called Bad" }];
    await using api = await apiDouble({
      ...answers,
      "/api/health/system": { status: "degraded", checks },
      "/api/config/validate": { valid: false, diagnostics },
    });
    const { stdout } = await runBerth(["status"], { SVC_URL: api.url });
    assert.match(stdout, /^ {2}store: degraded InvalidSpec, InvalidName; /m);
    assert.match(stdout, /^ {4}\/etc\/berth\/slots\/Bad\.toml:2:1: no slot is called Bad$/m);
  });

  it("names resources with their problems, and counts those that the token may not see", async () => {
    const counts = [
      { kind: "Model", type: "Stalled", reason: "InvalidSpec", count: 1 },
      { kind: "Upstream", type: "Stalled", reason: "NoKey", count: 2 },
    ];
    const condition = { type: "Stalled", status: "True", reason: "InvalidSpec", message: "/c/m.toml:3:1: no\nmore" };
    const conditions = [{ ...condition, observedGeneration: 1, lastTransitionTime: "2026-11-22T12:00:00.000Z" }];
    await using api = await apiDouble({
      ...answers,
      "/api/health/system": { status: "degraded", checks: { conditions: { status: "degraded", counts } } },
      "/api/models": { object: "list", data: [{ ...model, id: "m", conditions }, model] },
    });
    const { stdout } = await runBerth(["status"], { SVC_URL: api.url });
    assert.equal(
      stdout,
      `berth 0.1.0, up 1m15s, degraded
  conditions: degraded 1 Model Stalled InvalidSpec, 2 Upstream Stalled NoKey
    Model m: Stalled InvalidSpec: /c/m.toml:3:1: no (more by \`berth model show m\`)
    2 Upstream Stalled NoKey: an admin token sees more, by \`berth upstream show NAME\`

${slotTable}`,
    );
  });

  it("names groups with their problems, and says a reason that is the condition's own name once", async () => {
    const counts = [
      { kind: "Slot", type: "ModelUnknown", reason: "ModelUnknown", count: 1 },
      { kind: "SlotGroup", type: "Stalled", reason: "BudgetTooSmall", count: 1 },
    ];
    const condition = (type: string, reason: string): Record<string, unknown> => ({
      type,
      status: "True",
      reason,
      message: "no such thing",
      observedGeneration: 1,
      lastTransitionTime: "2026-11-22T12:00:00.000Z",
    });
    const lost = { ...primary, conditions: [condition("ModelUnknown", "ModelUnknown")] };
    const gpu = { name: "gpu", conditions: [condition("Stalled", "BudgetTooSmall")] };
    await using api = await apiDouble({
      ...answers,
      "/api/health/system": { status: "degraded", checks: { conditions: { status: "degraded", counts } } },
      "/api/slots": { object: "list", data: [lost] },
      "/api/groups": { object: "list", data: [gpu] },
    });
    const { stdout } = await runBerth(["status"], { SVC_URL: api.url });
    assert.equal(
      stdout.slice(0, stdout.indexOf("\n\n")),
      `berth 0.1.0, up 1m15s, degraded
  conditions: degraded 1 Slot ModelUnknown, 1 SlotGroup Stalled BudgetTooSmall
    Slot primary: ModelUnknown: no such thing
    SlotGroup gpu: Stalled BudgetTooSmall: no such thing`,
    );
  });

  it("names degraded checks with their reasons", async () => {
    const checks = {
      store: { status: "ok" },
      operator_heartbeat: { status: "failed", last: "2026-11-21T07:00:00.000Z", unexpected_ends: 4 },
      disk: { status: "degraded", free_bytes: 5 * 1024 ** 2 + 7 },
      slots: { status: "degraded", failed: ["coder"] },
    };
    await using api = await apiDouble({ ...answers, "/api/health/system": { status: "degraded", checks } });
    const { stdout } = await runBerth(["status"], { SVC_URL: api.url });
    assert.equal(
      stdout,
      `berth 0.1.0, up 1m15s, degraded
  operator heartbeat: failed last heartbeat 2026-11-21T07:00:00.000Z; operators have ended 4 times in the last ten minutes without being asked to: their log says why
  disk: degraded 5 MiB free
  slots: degraded coder

${slotTable}`,
    );
  });
});

describe("berth model", () => {
  it("list prints a table", async () => {
    await using api = await apiDouble({ "/api/models": { object: "list", data: [model] } });
    assert.equal(
      (await runBerth(["model", "list"], { SVC_URL: api.url })).stdout,
      `ID    STATE     SIZE       CAPABILITIES  SLOTS
tiny  assigned  512.0 KiB  chat          primary
`,
    );
  });

  it("show keeps the slashes of a ref and escapes the rest", async () => {
    await using api = await apiDouble({ "/api/models/vendor/a%3Afree": { ...model, id: "vendor/a:free" } });
    const { stdout } = await runBerth(["model", "show", "vendor/a:free", "-o", "json"], { SVC_URL: api.url });
    assert.deepEqual(JSON.parse(stdout), { ...model, id: "vendor/a:free" });
  });
});

it("sends the token of SVC_TOKEN", async () => {
  await using api = await apiDouble({ "/api/slots": { object: "list", data: [primary] } });
  await runBerth(["slot", "list"], { SVC_URL: api.url, SVC_TOKEN: "secret" });
  assert.deepEqual(api.authorizations, ["Bearer secret"]);
});

describe("texts of a service", () => {
  it("move no cursor, in whatever field they come", async () => {
    const evil = "a\u001B[2Jb";
    const group = {
      name: evil,
      declared: true,
      lent_until: evil,
      members: [{ slot: evil, state: evil, message: evil }],
    };
    await using api = await apiDouble({
      "/api/groups": { object: "list", data: [group, { ...group, name: "gpu", lent_until: null }] },
      "/api/upstreams": { object: "list", data: [{ name: evil, circuit: evil, spec: {} }] },
    });
    const client = new Client({ server: api.url, token: undefined });
    const texts = await Promise.all([
      groupTable(client, "wide"),
      groupTable(client, "name"),
      groupShow(client, "gpu", "table"),
      upstreamTable(client, "wide"),
    ]);
    for (const text of texts) {
      assert.ok(!text.includes("\u001B"), JSON.stringify(text));
      assert.ok(text.includes("a [2Jb"), JSON.stringify(text));
    }
  });

  it("are shown where a newer service has a word that this command does not know", async () => {
    await using api = await apiDouble({
      "/api/upstreams": { object: "list", data: [{ name: "acme", circuit: "constructor", spec: {} }] },
    });
    const text = await upstreamTable(new Client({ server: api.url, token: undefined }), "table");
    assert.match(text, /^acme +constructor /m);
  });
});
