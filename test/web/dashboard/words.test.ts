import assert from "node:assert/strict";
import { it } from "node:test";
import { bodyOf, clashesOf, manifestOf } from "../../../web/dashboard/new-slot.ts";
import { commandsOf, found } from "../../../web/dashboard/palette.ts";
import { outcomeOf, stretchesOf } from "../../../web/dashboard/request-words.ts";
import { groupOf, settingText } from "../../../web/dashboard/setting-groups.ts";
import { placeOf, placesIn } from "../../../web/dashboard/text-search.ts";
import { lineDifferences } from "../../../web/shared/line-diff.ts";
import { inOrder } from "../../../web/dashboard/slot-order.ts";
import { wordsOf } from "../../../web/shared/model-words.ts";
import { kindOf, parametersText } from "../../../web/dashboard/model-kinds.ts";

for (const [status, error, expected] of [
  [200, null, ["good", "Answered"]],
  [499, "dispatch.client_left", ["off", "Client left"]],
  [503, "slot.not_ready", ["bad", "503 not ready"]],
  [200, "dispatch.upstream_failed", ["bad", "200 upstream failed"]],
] as const)
  it(`a request that ended with ${status} ${error ?? ""} is said to be ${expected[1]}`, () => {
    const { tone, text } = outcomeOf({ status, error });
    assert.deepEqual([tone, text], expected);
  });

const request = {
  id: "r",
  ended_at: "2026-11-28T12:00:00.000Z",
  route: "/v1/chat/completions",
  slot: "a",
  model: "a",
  resolved: null,
  stream: true,
  status: 200,
  error: null,
  engine_error: null,
  ms: 1000,
  held_ms: 300,
  queued_ms: 100,
  first_token_ms: 600,
  engine_ms: 600,
  tokens_in: 1,
  tokens_out: 2,
};

it("the time of a request is taken apart, and parts without any are left out", () => {
  assert.deepEqual(
    stretchesOf(request).map(({ name, ms }) => [name, ms]),
    [
      ["held", 300],
      ["queued", 100],
      ["prompt", 200],
      ["answer", 400],
    ],
  );
  const whole = { ...request, held_ms: 0, queued_ms: 0, first_token_ms: null };
  assert.deepEqual(
    stretchesOf(whole).map(({ name, ms }) => [name, ms]),
    [["answer", 1000]],
  );
});

it("a new slot is written without what is the default", () => {
  const slot = { name: "coder", model: "qwen3-4b", load: "always", aliases: "", context: "", group: "" } as const;
  assert.deepEqual(bodyOf(slot), { name: "coder", model: { default: "qwen3-4b" } });
  assert.equal(manifestOf(slot), '[model]\ndefault = "qwen3-4b"\n');
  const full = { ...slot, load: "onDemand", aliases: "gpt-4o, code", context: "8192", group: "gpu" } as const;
  assert.deepEqual(bodyOf(full), {
    name: "coder",
    load: "onDemand",
    aliases: ["gpt-4o", "code"],
    group: "gpu",
    model: { default: "qwen3-4b", contextSize: 8192 },
  });
  assert.equal(
    manifestOf(full),
    'load = "onDemand"\naliases = ["gpt-4o", "code"]\ngroup = "gpu"\n\n[model]\ndefault = "qwen3-4b"\ncontext_size = 8192\n',
  );
});

it("a new slot's name takes an alias from another slot, and its aliases none", () => {
  const slots = [
    { name: "writer", aliases: ["gpt-4o", "fast"] },
    { name: "coder", aliases: [] },
  ];
  const slot = {
    name: "gpt-4o",
    model: "m",
    load: "always",
    aliases: "coder fast own",
    context: "",
    group: "",
  } as const;
  assert.deepEqual(clashesOf(slot, slots), [
    "gpt-4o is an alias of writer, which loses it: clients that ask for gpt-4o reach the new slot.",
    "fast is an alias of writer, which keeps it.",
    "coder is the name of coder, which keeps it.",
  ]);
  assert.deepEqual(clashesOf({ ...slot, name: "new", aliases: "" }, slots), []);
});

it("the palette finds pages, slots and what can be done with them by some letters", () => {
  const acts = { load: () => undefined, unload: () => undefined, restart: () => undefined };
  const process = { role: "main" as const, ordinal: 0, host: "h", port: 1, endpoint: "", isReady: true };
  const commands = commandsOf(
    [
      { name: "coder", processes: [process], enabled: true, model: "qwen3-4b" },
      { name: "writer", processes: [], enabled: true, model: null },
    ],
    acts,
  );
  const names = (text: string): readonly string[] => found(commands, text).map(({ name }) => name);
  assert.equal(names("machine")[0], "Machine");
  assert.equal(names("unload")[0], "Unload coder");
  assert.equal(names("ldwri")[0], "Load writer");
  assert.ok(names("qwen").includes("coder"), "by its model");
  assert.ok(!names("load").includes("Load coder"), "it is loaded already");
  assert.deepEqual(names("zzz"), []);
});

it("settings are grouped, and their values are in units that people use", () => {
  assert.equal(groupOf("auth_enabled"), "Access");
  assert.equal(groupOf("bodyLimit"), "Limits");
  assert.equal(groupOf("something_new"), "Other");
  assert.equal(settingText("body_limit", 64 * 1024 ** 2), "64.0 MiB");
  assert.equal(settingText("pull_bandwidth", 0), "no limit");
  assert.equal(settingText("disk_reserve", 0), "0 B");
  assert.equal(settingText("hold_seconds", 180), "3 min 0 s");
  assert.equal(settingText("tls_email", null), "not set");
  assert.equal(settingText("api_exec", false), "off");
  assert.equal(settingText("allowed_hosts", []), "none");
});

it("a text is searched onwards and back, and goes on at the other end", () => {
  const text = "Error one, error two";
  assert.equal(placeOf(text, "error", -1, 1), 0);
  assert.equal(placeOf(text, "error", 0, 1), 11);
  assert.equal(placeOf(text, "error", 11, 1), 0);
  assert.equal(placeOf(text, "error", 11, -1), 0);
  assert.equal(placeOf(text, "error", 0, -1), 11);
  assert.equal(placeOf(text, "error", -1, -1), 11);
  assert.equal(placeOf(text, "none", 0, 1), undefined);
  assert.deepEqual(placesIn(text, "ERROR"), [0, 11]);
  assert.deepEqual(placesIn(text, "none"), []);
});

it("models have a kind by what they can, and their size in words", () => {
  assert.equal(kindOf(["vision", "chat"]), "chat");
  assert.equal(kindOf(["tts"]), "audio");
  assert.equal(kindOf(["something new"]), undefined);
  assert.equal(parametersText(4_022_468_096), "4.0B");
  assert.equal(parametersText(270_000_000), "270M");
  assert.equal(parametersText(143_000), "143K");
});

it("the lines of two texts are compared, and of texts with little in common all are told", () => {
  const told = (before: string, after: string): readonly string[] =>
    lineDifferences(before, after).map(({ kind, line }) => `${{ same: " ", added: "+", removed: "-" }[kind]}${line}`);
  assert.deepEqual(told("a\nb\nc\n", "a\nx\nc\n"), [" a", "-b", "+x", " c", " "]);
  const [old, fresh] = ["o", "f"].map((name) => Array.from({ length: 600 }, (_, at) => `${name}${at}`).join("\n"));
  assert.equal(told(old ?? "", fresh ?? "").length, 1200);
});

it("a slot that answers keeps its place among those that are ready, one that is tried again among the failed", () => {
  const slot = (name: string, state: "ready" | "serving" | "error" | "offline" | "starting") =>
    ({ name, state, in_flight: 1, progress: null, conditions: [], last_error: null }) as const;
  const error = { reason: "Exited", message: "exited with code 3", time: "2026-11-28T12:00:00.000Z" };
  const again = { ...slot("e", "starting"), last_error: error };
  const all = [
    slot("d", "offline"),
    slot("c", "serving"),
    slot("a", "ready"),
    slot("f", "starting"),
    again,
    slot("b", "error"),
  ];
  assert.deepEqual(
    inOrder(all).map(({ name }) => name),
    ["b", "e", "f", "a", "c", "d"],
  );
});

for (const [state, expected] of [
  ["offline", "On demand"],
  ["serving", "Ready"],
  ["idle", "Ready"],
  ["unknown", undefined],
] as const)
  it(`a list of models says of one that is ${state}: ${expected}`, () =>
    assert.equal(wordsOf({ berth: { kind: "slot", state, slot: "a", capabilities: [] } })?.text, expected));
