import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readManifests } from "../../../src/store/files/manifest.ts";

const lines = (...text: string[]): string => `${text.join("\n")}\n`;
const told = (file: string, text: string): unknown[] =>
  readManifests(file, text).flatMap(({ diagnostics }) =>
    diagnostics.map(({ line, column, path, message }) => [`${line}:${column}`, path?.join("."), message]),
  );
const model = '[model]\ndefault = "m"\n';

const mergeKeys = "YAML 1.2 has no merge keys; name the fields, or give an alias of the whole map";
const problems: readonly (readonly [file: string, text: string, told: readonly unknown[]])[] = [
  // The key that was meant, in the spelling of the file.
  [
    "a.toml",
    lines('backend = "steam"', "", "[model]", 'default = "m"', "  context_siz = 1"),
    [
      ["1:1", "backend", "must be one of auto, vulkan, rocm, cuda, npu, cpu"],
      ["5:3", "model.context_siz", "unknown key; did you mean context_size?"],
    ],
  ],
  [
    "a.yaml",
    lines("model:", "  default: m", "  contextSiz: 1"),
    [["3:3", "model.contextSiz", "unknown key; did you mean contextSize?"]],
  ],
  [
    "a.toml",
    `${model}[env]\nok = "1"\nmy_port = 1\n`,
    [["5:1", "env.my_port", "must be text, and is a number; or must be a map, and is a number"]],
  ],
  // The engine's capabilities.
  [
    "stt.toml",
    `capabilities = ["transcription", "chat"]\n${model}`,
    [["1:34", "capabilities.1", "the stt engine has no chat, only transcription"]],
  ],
  [
    "x.yaml",
    lines("engine: tts", "model: {default: m}", "capabilities:", "  - speech", "  - image"),
    [["5:5", "capabilities.1", "the tts engine has no image, only speech"]],
  ],
  // YAML that is valid and not allowed in a manifest.
  ["a.yaml", "model: {<<: {default: m}}\n", [["1:9", "model.<<", mergeKeys]]],
  [
    "a.yaml",
    lines("a: &m {default: m}", "model:", "  default: *nobody", "env: *m"),
    [["3:12", undefined, "Unresolved alias"]],
  ],
  [
    "a.yaml",
    lines("a: &a [x]", ...Array.from("bcdefghi", (key, at) => `${key}: &${key} [${`*${"abcdefgh"[at]},`.repeat(9)}]`)),
    [["1:1", undefined, "Excessive alias"]],
  ],
];

describe("a manifest file", () => {
  it("has the same meaning in TOML, bare YAML and a full manifest", () => {
    const [toml] = readManifests(
      "/c/slots/a.toml",
      lines("idle_seconds = 5", "[model]", 'default = "m"', "context_size = 4096", "[env]", 'my_key = "v"'),
    );
    const [bare] = readManifests(
      "/c/slots/a.yaml",
      lines("idleSeconds: 5", "model: {default: m, contextSize: 4096}", "env: {my_key: v}"),
    );
    const [full] = readManifests(
      "/c/slots/other.yml",
      lines(
        "apiVersion: berth.dev/v1alpha1",
        "kind: Slot",
        "metadata: {name: a}",
        "spec: {idleSeconds: 5, model: {default: m, contextSize: 4096}, env: {my_key: v}}",
      ),
    );
    assert.deepEqual(toml?.diagnostics, []);
    assert.equal(toml.name, "a");
    assert.equal(full?.name, "a");
    assert.deepEqual(bare?.spec, toml.spec);
    assert.deepEqual(full.spec, toml.spec);
    assert.equal(bare?.specHash, toml.specHash);
  });

  it("tells a document of another program from a manifest of another version", () => {
    const kustomization = lines(
      "apiVersion: kustomize.config.k8s.io/v1beta1",
      "kind: Kustomization",
      "resources: [a.yaml]",
    );
    const of = (text: string): unknown[] =>
      readManifests("/c/slots/kustomization.yaml", text).map(({ name, isForeign, spec }) => [name, isForeign, spec]);
    assert.deepEqual(of(kustomization), [["", true, undefined]]);
    const spec = lines("kind: Slot", "metadata: {name: a}", "spec: {model: {default: m}}");
    for (const version of ["berth.dev/v9", "bert.dev/v1alpha1"])
      assert.deepEqual(of(`apiVersion: ${version}\n${spec}`), [["a", undefined, undefined]], version);
  });

  it("names the place in a file that begins with a byte order mark", () => {
    for (const [file, text, place] of [
      ["/c/slots/a.toml", '\uFEFFmodl = 1\n[model]\ndefault = "m"\n', "1:1"],
      ["/c/slots/a.toml", '\uFEFF[model]\ndefault = "m"\ndefalt = 1\n', "3:1"],
      ["/c/slots/a.toml", "\uFEFFenabled = \n", "1:11"],
      ["/c/slots/a.yaml", "\uFEFFmodl: 1\nmodel: {default: m}\n", "1:1"],
      ["/c/slots/a.yaml", "\uFEFFmodel: {default: m}\nmodl: 1\n", "2:1"],
    ] as const) {
      const [first, ...more] = told(file, text).map(String);
      assert.deepEqual([first?.split(",")[0], more], [place, []], JSON.stringify(text));
    }
  });

  it("never converts a person's own keys", () => {
    const own = [
      "[labels]\nteam_name",
      "[annotations]\nwhy_not",
      "[request.set]\ntop_k",
      "[pod_template.spec]\nmy_field",
    ];
    const [slot] = readManifests("/c/slots/a.toml", `${model}${own.map((key) => `${key} = "x"\n`).join("")}`);
    assert.deepEqual(slot?.diagnostics, []);
    assert.deepEqual(slot.labels, { team_name: "x" });
    assert.deepEqual(slot.annotations, { why_not: "x" });
    assert.ok(slot.spec !== undefined && "request" in slot.spec);
    assert.deepEqual(slot.spec.request.set, { top_k: "x" });
    assert.deepEqual(slot.spec.podTemplate, { spec: { my_field: "x" } });
    const [ofModel] = readManifests("/c/models/m.toml", lines('source = "file:///m"', "[default]", "top_k = 1"));
    assert.ok(ofModel?.spec !== undefined && "default" in ofModel.spec);
    assert.deepEqual(ofModel.spec.default, { top_k: 1 });
  });

  for (const [file, text, expected] of problems)
    it(`is told with the place of its problem: ${JSON.stringify(expected)}`, () => {
      assert.deepEqual(told(`/c/slots/${file}`, text), expected);
    });

  it("names the place where a text stops being TOML or YAML", () => {
    assert.match(String(told("/c/slots/a.toml", "enabled = true\nmodel = = 1\n")), /^2:\d+,/);
    assert.match(String(told("/c/slots/a.yaml", "enabled: true\nmodel: [a\n")), /^[23]:\d+,/);
  });

  it("survives any exception of a parser", () => {
    for (const [file, text] of [
      ["/c/slots/a.yaml", `model: ${"[".repeat(15_000)}`],
      ["/c/slots/a.yaml", "podTemplate: &a {self: *a}\n"],
      ["/c/slots/a.yaml", "model: {default: m}\npodTemplate: &a [*a]\n"],
      ["/c/slots/a.toml", `a = ${"[".repeat(20_000)}`],
      ["/c/slots/a.yaml", `a: ${"- ".repeat(1_000_000)}x`],
      ["/c/slots/a.yaml", "- 1\n"],
      ["/c/slots/a.yaml", "just text"],
      ["/c/slots/a.yaml", ""],
      ["/c/slots/a.yaml", "# nothing\n"],
    ] as const) {
      const [only] = readManifests(file, text);
      assert.equal(only?.name, "a");
      assert.equal(only.spec, undefined);
      assert.ok(only.diagnostics.length > 0, text.slice(0, 30));
    }
  });

  it("is refused where a parser would need seconds for it, or its values would exhaust the stack", () => {
    const filled = (part: string, before = ""): string => before + part.repeat((100 * 1024) / part.length);
    const numbered = (part: (n: number) => string): string => Array.from({ length: 2000 }, (_, n) => part(n)).join("");
    const expanding = Array.from(
      "bcdefghij",
      (key, n) => `${key}: &${key} [${`*${"abcdefghi"[n]}, `.repeat(9)}]
`,
    );
    for (const [file, text, message] of [
      ["a.yaml", filled("["), /^it holds more than 20000 line ends and punctuation marks$/],
      ["a.yaml", filled("- "), /20000 line ends/],
      ["a.yaml", `a: "${filled("\\q")}"`, /20000 line ends/],
      ["a.yaml", filled("a\n", "a: >\n"), /20000 line ends/],
      ["a.toml", filled("k = 1\n"), /20000 line ends/],
      ["a.yaml", numbered((n) => `- &a${n} 1\n- *a${n}\n`), /^it holds more than 500 aliases$/],
      ["a.yaml", `a: &a [x]\n${expanding.join("")}`, /^Excessive alias/],
      ["a.yaml", `a: ${"[".repeat(100)}${"]".repeat(100)}`, /^it is nested more than 64 deep$/],
      ["a.yaml", `a: ${"[".repeat(15_000)}`, /^it is nested too deeply$/],
      ["a.toml", `a = ${"[".repeat(15_000)}`, /^this is nested too deeply$/],
      ["a.toml", `${"a.".repeat(100)}a = 1`, /^it is nested more than 64 deep$/],
      ["a.toml", `${"a.".repeat(15_000)}a = 1`, /^it is nested more than 64 deep$/],
    ] as const) {
      const [only, ...others] = readManifests(`/c/slots/${file}`, text);
      assert.deepEqual([only?.name, only?.spec, others], ["a", undefined, []]);
      assert.match(only?.diagnostics[0]?.message ?? "", message, text.slice(0, 20));
    }
  });

  it("may have long texts, and aliases of whole maps", () => {
    const long = "word ".repeat(150_000);
    for (const [file, text] of [
      ["a.toml", `engine = "custom"\ncommand = ["run"]\nenv.PROMPT = "${long}"\n`],
      ["a.yaml", `engine: custom\ncommand: [run]\nenv: {PROMPT: "${long}"}\npodTemplate: {a: &a {b: 1}, c: *a}\n`],
    ] as const)
      assert.deepEqual(told(`/c/slots/${file}`, text), []);
  });

  it("refuses a name that no slot may have, and says what to do about a text in UTF-16", () => {
    assert.match(String(told("/c/slots/Not_A_Slot.toml", model)), /not a slot name/);
    const text = Buffer.from("\uFEFFenabled = true\n", "utf16le").toString("utf8");
    assert.match(String(told("/c/slots/a.toml", text)), /save it as UTF-8/);
  });
});
