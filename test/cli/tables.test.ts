import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { coder, done, failed, listOf, model, primary, refused, slots, told, type Answers } from "./fixture.ts";

const slotTable = `NAME     STATE  READY               MODEL     PORT  RESTARTS  UP
primary  ready  Ready               tiny      8081  1         1h2m
coder    error  Failed (CrashLoop)  qwen3:4b  -     4         -
`;
const wideTable = `NAME     STATE  READY               MODEL     ENGINE  RUNTIME  PORT  RESTARTS  IN-FLIGHT  UP    BENCH TOK/S  LAST ERROR
primary  ready  Ready               tiny      llama   process  8081  1         2          1h2m  -            -
coder    error  Failed (CrashLoop)  qwen3:4b  llama   process  -     4         0          -     -            exited with code 1: failed to load model; failed to load mo…
`;

const byHand = {
  state: "offline",
  conditions: [{ type: "Ready", status: "True", reason: "Unloaded", message: "unloaded by request at T" }],
};
const unloadedOnDemand = {
  state: "offline",
  conditions: [
    {
      type: "Ready",
      status: "True",
      reason: "UnloadedUntilRequest",
      message: "unloaded by request of me at T; the next request loads it",
    },
  ],
};

describe("berth slot list", () => {
  for (const [line, answer, stdout] of [
    ["slot list", slots, slotTable],
    ["slot list -o wide", slots, wideTable],
    ["slot list -o name", slots, "primary\ncoder\n"],
    ["slot list -o json", slots, `${JSON.stringify(slots, null, 2)}\n`],
    ["slot list", listOf(), "NAME  STATE  READY  MODEL  PORT  RESTARTS  UP\n"],
  ] as const)
    it(`prints ${answer === slots ? "all" : "no"} slots: ${line}`, async () => {
      const { ended, asked } = await told({ "/api/slots": answer }, line);
      assert.deepEqual([ended, asked], [done(stdout), ["GET /api/slots"]]);
    });

  it("says why a slot that answers is degraded", async () => {
    const degraded = { ...primary.conditions[0], type: "Degraded", reason: "NoChatTemplate" };
    const slot = { ...primary, conditions: [...primary.conditions, degraded] };
    const { stdout } = await told({ "/api/slots": listOf(slot) }, "slot list");
    assert.match(stdout, /^primary  ready  Ready \(NoChatTemplate\)  /m);
  });

  it("folds the built-in slots that nobody has configured into a line, for a person alone", async () => {
    const unset = ["stt", "tts"].map((name) => ({
      ...primary,
      name,
      state: "offline",
      conditions: [
        { type: "Ready", status: "True", reason: "NotConfigured", message: "no manifest configures this slot" },
      ],
    }));
    const answers = { "/api/slots": listOf(primary, coder, ...unset) };
    const line = "\nNot set up: stt, tts (`berth slot create stt --model REF` sets stt up)\n";
    assert.equal((await told(answers, "slot list")).stdout, `${slotTable}${line}`);
    assert.equal((await told(answers, "slot list -o wide")).stdout, `${wideTable}${line}`);
    assert.equal((await told(answers, "slot list -o name")).stdout, "primary\ncoder\nstt\ntts\n");
  });

  it("prints YAML that reads back as the answer", async () => {
    assert.deepEqual(parse((await told({ "/api/slots": slots }, "slot list -o yaml")).stdout), slots);
  });

  it("sends the token of SVC_TOKEN", async () => {
    await using api = await apiDouble({ "/api/slots": slots });
    await runBerth(["slot", "list"], { SVC_URL: api.url, SVC_TOKEN: "secret" });
    assert.deepEqual(api.authorizations, ["Bearer secret"]);
  });
});

describe("berth slot show", () => {
  const show = async (slot: object): Promise<string> =>
    (await told({ "/api/slots/primary": slot }, "slot show primary")).stdout;

  it("prints fields, conditions, the last error and transitions", async () => {
    const transitions = [
      { at: "2026-11-21T06:59:59.000Z", from: "warming", to: "error", reason: "Exited", message: "exited with code 1" },
    ];
    assert.equal(
      await show({ ...coder, last_error: { ...coder.last_error, message: "exited with code 1" }, transitions }),
      `name:               coder
state:              error (Failed)
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
failures in 24 h:   4, the last at 2026-11-21T07:00:00.000Z
transitions:
  2026-11-21T06:59:59.000Z  warming → error: exited with code 1
`,
    );
  });

  const compute = { devices: ["CUDA0"], layers_offloaded: 26, layers_total: 33, buffers: [] };
  const onCpu = { devices: [], layers_offloaded: 0, layers_total: 37, buffers: [] };
  const onGpu = { host_bytes: 1024, devices: [{ id: "0000:00:06.0", bytes: 9_655_287_808 }] };
  const containers = [
    { role: "main", containerId: "0123456789abcdef0123" },
    { role: "rerank", containerId: "f".repeat(64) },
  ];
  const at = (port: number): string => `http://127.0.0.1:${port}`;
  const replicas = [
    { role: "main", ordinal: 0, endpoint: at(8081), isReady: true },
    { role: "main", ordinal: 1, endpoint: at(8082), isReady: false, drainingSince: "2026-01-01T00:00:00.000Z" },
    { role: "main", ordinal: 2, endpoint: at(8083), isReady: false },
  ];
  for (const [what, fields, lines] of [
    ["the memory of its engine", { memory_bytes: 1_610_612_736 }, /^memory: {13}1\.5 GiB$/m],
    [
      "the devices of its engine, and its memory on each GPU",
      { compute, memory: onGpu },
      /^computes on: {8}CUDA0, 26 of 33 layers on a GPU\nGPU memory: {9}9\.0 GiB of 0000:00:06\.0$/m,
    ],
    [
      "what the manifest leaves open, with its value and why",
      { decisions: { contextSize: { value: "32768", reason: "of the model's 131072" } } },
      /^decided:\n {2}contextSize +32768 +of the model's 131072$/m,
    ],
    ["an engine without a GPU", { compute: onCpu, memory: null }, /^computes on: {8}CPU, 0 of 37 layers on a GPU$/m],
    [
      "its image",
      { image: "ghcr.io/a/b", image_digest: "sha256:abc" },
      /^image: +ghcr\.io\/a\/b\nimage digest: +sha256:abc$/m,
    ],
    [
      "a model that was swapped in, and how to go back",
      { model_origin: "swap" },
      /^swapped by hand: {4}tiny is in place of the manifest's model; `berth slot swap primary --reset` goes back$/m,
    ],
    [
      "when it was unloaded by hand, and how to load it",
      byHand,
      /^state: {14}offline \(Unloaded by hand: loads once somebody loads it\)$[^]*^unloaded by hand: {3}unloaded by request at T; `berth slot load primary` loads it again$/m,
    ],
    [
      "when an on-demand slot was unloaded by hand",
      unloadedOnDemand,
      /^state: {14}offline \(Unloaded by hand: loads with the next request\)$[^]*^unloaded by hand: {3}unloaded by request of me at T; the next request loads it; `berth slot load primary` loads it now$/m,
    ],
    ["its containers", { processes: containers }, /^container: +0123456789ab\ncontainer \(rerank\): ffffffffffff$/m],
    [
      "its replicas with where each answers",
      { processes: replicas },
      /^processes:\n {2}main {10}ready {6}\S+:8081\n {2}main-1 {8}draining {3}\S+:8082\n {2}main-2 {8}not ready {2}\S+:8083$/m,
    ],
  ] as const)
    it(`prints ${what}`, async () => assert.match(await show({ ...primary, ...fields }), lines));

  it("says what to do about an unknown slot", async () => {
    const said = "slot.not_found: there is no such slot\nsee `berth slot list`\n";
    assert.deepEqual((await told({}, "slot show nope")).ended, failed(said));
  });
});

describe("berth slot plan", () => {
  const text =
    "primary: Starting: it is always loaded\n  1. start main: it is not running\n     llama-server --port 8081\n";
  const answers = { "/api/slots/primary/plan": { slot: "primary", plan: {}, text } };

  it("prints the plan's own text", async () => assert.equal((await told(answers, "slot plan primary")).stdout, text));

  it("prints a name alone where that is asked for", async () => {
    assert.equal((await told(answers, "slot plan primary -o name")).stdout, "primary\n");
  });
});

describe("berth status", () => {
  const status = async (checks: object, more: Answers = {}, line = "status"): Promise<string> => {
    const health = { status: Object.keys(checks).length === 0 ? "ok" : "degraded", checks };
    const service = { name: "berth", version: "0.1.0", uptime_seconds: 75, ready: true };
    const answers = { "/api/status": service, "/api/slots": slots, "/api/health/system": health, ...more };
    const { ended } = await told(answers, line);
    assert.deepEqual([ended.code, ended.stderr], [0, ""]);
    return ended.stdout;
  };
  const since = { observedGeneration: 1, lastTransitionTime: "2026-11-22T12:00:00.000Z" };
  const condition = (type: string, reason: string, message: string): object => {
    return { type, status: "True", reason, message, ...since };
  };
  const counted = (...counts: readonly object[]): object => ({ conditions: { status: "degraded", counts } });

  it("prints the service in a line and the slots below, or their names alone", async () => {
    assert.equal(await status({}), `berth 0.1.0, up 1m15s, ok\n\n${slotTable}`);
    assert.equal(await status({}, {}, "status -o name"), "primary\ncoder\n");
  });

  it("says what was changed by hand, and how to undo it", async () => {
    const changed = { ...primary, ...byHand, model_origin: "swap" };
    assert.match(
      await status({}, { "/api/slots": listOf(changed) }),
      new RegExp(
        "^berth 0\\.1\\.0, up 1m15s, ok\n {2}primary: unloaded by request at T; `berth slot load primary` loads it again\n" +
          " {2}primary: tiny is in place of the manifest's model; `berth slot swap primary --reset` goes back\n\nNAME",
      ),
    );
  });

  it("names degraded checks with their reasons", async () => {
    const checks = {
      store: { status: "ok" },
      operator_heartbeat: { status: "failed", last: "2026-11-21T07:00:00.000Z", unexpected_ends: 4 },
      disk: { status: "degraded", free_bytes: 5 * 1024 ** 2 + 7 },
      slots: { status: "degraded", failed: ["coder"] },
    };
    assert.equal(
      await status(checks),
      `berth 0.1.0, up 1m15s, degraded
  operator heartbeat: failed last heartbeat 2026-11-21T07:00:00.000Z; operators have ended 4 times in the last ten minutes without being asked to: their log says why
  disk: degraded 5 MiB free
  slots: degraded coder

${slotTable}`,
    );
  });

  it("names each wrong manifest, where the token may read them", async () => {
    const file = "/etc/berth/slots/Bad.toml";
    const diagnostics = [{ reason: "InvalidName", file, line: 2, column: 1, message: "no slot is called Bad" }];
    const text = await status(
      { store: { status: "degraded", reasons: ["InvalidSpec", "InvalidName"] } },
      { "/api/config/validate": { valid: false, diagnostics } },
    );
    assert.match(text, /^ {2}store: degraded InvalidSpec, InvalidName; /m);
    assert.match(text, /^ {4}\/etc\/berth\/slots\/Bad\.toml:2:1: no slot is called Bad$/m);
  });

  it("names resources with their problems, and counts those that the token may not see", async () => {
    const conditions = [condition("Stalled", "InvalidSpec", "/c/m.toml:3:1: no\nmore")];
    const text = await status(
      counted(
        { kind: "Model", type: "Stalled", reason: "InvalidSpec", count: 1 },
        { kind: "Upstream", type: "Stalled", reason: "NoKey", count: 2 },
      ),
      { "/api/models": listOf({ ...model, id: "m", conditions }, model) },
    );
    assert.equal(
      text,
      `berth 0.1.0, up 1m15s, degraded
  conditions: degraded 1 Model Stalled InvalidSpec, 2 Upstream Stalled NoKey
    Model m: Stalled InvalidSpec: /c/m.toml:3:1: no (more by \`berth model show m\`)
    2 Upstream Stalled NoKey: an admin token sees more, by \`berth upstream show NAME\`

${slotTable}`,
    );
  });

  it("names groups with their problems, and says a reason that is the condition's own name once", async () => {
    const lost = { ...primary, conditions: [condition("ModelUnknown", "ModelUnknown", "no such thing")] };
    const gpu = { name: "gpu", conditions: [condition("Stalled", "BudgetTooSmall", "no such thing")] };
    const text = await status(
      counted(
        { kind: "Slot", type: "ModelUnknown", reason: "ModelUnknown", count: 1 },
        { kind: "SlotGroup", type: "Stalled", reason: "BudgetTooSmall", count: 1 },
      ),
      { "/api/slots": listOf(lost), "/api/groups": listOf(gpu) },
    );
    assert.equal(
      text.slice(0, text.indexOf("\n\n")),
      `berth 0.1.0, up 1m15s, degraded
  conditions: degraded 1 Slot ModelUnknown, 1 SlotGroup Stalled BudgetTooSmall
    Slot primary: ModelUnknown: no such thing
    SlotGroup gpu: Stalled BudgetTooSmall: no such thing`,
    );
  });
});

describe("berth model", () => {
  it("list prints a table", async () => {
    assert.equal(
      (await told({ "/api/models": listOf(model) }, "model list")).stdout,
      "ID    STATE     SIZE       CAPABILITIES  SLOTS\ntiny  assigned  512.0 KiB  chat          primary\n",
    );
  });

  it("show keeps the slashes of a ref and escapes the rest", async () => {
    const free = { ...model, id: "vendor/a:free" };
    const { stdout } = await told({ "/api/models/vendor/a%3Afree": free }, "model show vendor/a:free -o json");
    assert.deepEqual(JSON.parse(stdout), free);
  });
});

describe("texts of a service", () => {
  const wrote = "a\u001B[2Jgone\u001B]0;title\u0007\nNAME  STATE";
  const slot = { ...coder, model: wrote, last_error: { ...coder.last_error, message: wrote } };
  const members = [{ slot: wrote, state: wrote, message: wrote }];
  const group = { name: wrote, declared: true, lent_until: wrote, members };
  const answers = {
    "/api/slots/coder": slot,
    "/api/slots": listOf(slot),
    "/api/slots/nope": refused(404, "slot.not_found", wrote),
    "/api/groups": listOf(group, { ...group, name: "gpu", lent_until: null }),
    "/api/upstreams": listOf(
      { name: wrote, circuit: wrote, spec: {} },
      { name: "acme", circuit: "constructor", spec: {} },
    ),
  };
  for (const line of [
    "slot show coder",
    "slot list -o wide",
    "slot show nope",
    "group list -o wide",
    "group list -o name",
    "group show gpu",
    "upstream list -o wide",
  ])
    it(`move no cursor: ${line}`, async () => {
      const { stdout, stderr } = await told(answers, line);
      assert.doesNotMatch(`${stdout}${stderr}`, /[^\P{Cc}\n]/u);
      assert.doesNotMatch(`${stdout}${stderr}`, /^NAME {2}STATE$/m);
      assert.match(`${stdout}${stderr}`, /a \[2Jgone \]0;title NAME {2}STATE/);
    });

  it("are data where data is asked for", async () => {
    assert.deepEqual(JSON.parse((await told(answers, "slot show coder -o json")).stdout), slot);
  });

  it("are shown where a newer service has a word that this command does not know", async () => {
    assert.match((await told(answers, "upstream list")).stdout, /^acme +constructor /m);
  });
});
