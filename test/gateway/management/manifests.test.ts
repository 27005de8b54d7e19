import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { guardExecFields, guardKeySource } from "../../../src/gateway/management/exec-fields.ts";
import { rowsOf, type Site, site } from "./fixture.ts";

const refused = { isAllowed: false, file: "slots/a.toml" };
const allowed = { ...refused, isAllowed: true };

describe("what the API may not write", () => {
  it("is a field that runs code or reads a file, unless it stays as it is or SVC_API_EXEC allows it", () => {
    for (const [path, spec] of [
      ["command", { command: ["sh"] }],
      ["args", { args: ["--x"] }],
      ["image", { image: "evil" }],
      ["mounts", { mounts: [{ source: "/", target: "/host" }] }],
      ["devices", { devices: ["/dev/mem"] }],
      ["workingDir", { workingDir: "/" }],
      ["podTemplate", { podTemplate: {} }],
      ["model.projector", { model: { projector: "/etc/shadow" } }],
      ["model.projector", { model: { projector: "models/../../etc" } }],
      ["env.NODE_OPTIONS", { env: { NODE_OPTIONS: "--import=data:text/javascript,0" } }],
      ["env.KEY", { env: { KEY: { valueFrom: { file: "/etc/shadow" } } } }],
    ] as const) {
      const details = { path: path.split("."), file: "slots/a.toml" };
      assert.throws(() => guardExecFields(spec, {}, refused), { code: "auth.forbidden", details });
      guardExecFields(spec, spec, refused);
      guardExecFields(spec, {}, allowed);
    }
  });

  it("is another runtime for a slot with code of its own", () => {
    for (const code of [{ command: ["sh"] }, { args: ["--x"] }, { image: "engine" }, { env: { A: "1" } }]) {
      const before = { ...code, runtime: "docker" };
      const forbidden = (field: string) => ({
        code: "auth.forbidden",
        details: { path: [field], file: "slots/a.toml" },
      });
      for (const spec of [{ ...code, runtime: "process" }, code])
        assert.throws(() => guardExecFields(spec, before, refused), forbidden("runtime"));
      // As a process, that is.
      assert.throws(() => guardExecFields({ ...code, program: "embedded" }, code, refused), forbidden("program"));
      guardExecFields(before, before, refused);
      guardExecFields({ ...code, runtime: "process" }, before, allowed);
    }
  });

  it("allows a slot without code any runtime", () => {
    guardExecFields({ model: { default: "m" }, runtime: "process" }, { runtime: "docker" }, refused);
    guardExecFields({ runtime: "process" }, { runtime: "docker", env: { A: "1" } }, refused);
  });

  it("allows every other field", () => {
    guardExecFields({ enabled: false, idleSeconds: 5, labels: { a: "b" } }, {}, refused);
    guardExecFields({ model: { default: "m", projector: "vendor/mmproj:f16" }, probe: { path: "/ok" } }, {}, refused);
  });

  it("refuses to send a provider's key elsewhere, or another secret to a provider", () => {
    const auth = { type: "bearer", valueFrom: { env: "KEY" } };
    const before = { baseUrl: "https://api.example.com/v1", auth };
    guardKeySource({ ...before, retries: 2 }, before, refused);
    guardKeySource({ baseUrl: "http://127.0.0.1:1/v1" }, {}, refused);
    guardKeySource({ baseUrl: "http://127.0.0.1:1/v1", auth: { type: "none" } }, before, refused);
    guardKeySource(before, {}, allowed);
    for (const spec of [
      { ...before, baseUrl: "https://evil.example/v1" },
      { ...before, auth: { type: "bearer", valueFrom: { env: "SVC_ADMIN_PASSWORD" } } },
    ]) {
      assert.throws(() => guardKeySource(spec, before, refused), { code: "auth.forbidden" });
    }
    assert.throws(() => guardKeySource(before, {}, refused), { code: "auth.forbidden" });
  });
});

const text = '# kept\nengine = "custom"\ncommand = ["sleep", "1"]\n';
const file = "slots/coder.toml";
const path = "/api/slots/coder/manifest";

describe("the text of a manifest over the API", () => {
  let at: Site;
  before(async () => {
    const spec = { engine: "custom" as const, command: ["sleep", "1"] };
    at = await site({ slots: { coder: { spec }, other: { spec }, twin: { spec } } });
    await at.declare(file, text);
  });
  after(() => at[Symbol.asyncDispose]());

  it("is refused where it is faulty, or holds a command while everybody may write", async () => {
    const { hash } = await at.got(path);
    for (const [next, told] of [
      [`${text}idle_secnds = 7\n`, /^422 .*slots\/coder\.toml:4.*idle_seconds/],
      [text.replace("sleep", "rm"), /^403 .*command.*SVC_API_EXEC/],
      ["[[[", /^422 .*slots\/coder\.toml:1/],
    ] as const) {
      const { is, message } = await at.refused("PUT", path, { text: next, hash });
      assert.match(`${is}: ${message}`, told);
    }
    assert.equal(await at.written(file), text);
    assert.match((await at.refused("GET", "/api/slots/other/manifest")).is, /^404 /, "it has none");
  });

  it("is read with its comments, and written as it is sent, over no other person's edit", async () => {
    const source = await at.got(path);
    assert.deepEqual(source, { file, text, hash: source["hash"], read_only: null });
    const next = `${text}idle_seconds = 7 # new\n`;
    assert.equal((await at.send("PUT", path, { text: next, hash: source["hash"] })).status, 202);
    assert.equal((await at.refused("PUT", path, { text, hash: source["hash"] })).is, "409 config.changed");
    assert.equal(await at.written(file), next);
  });

  it("is refused for a file of several documents, where a text could change what the caller may not", async () => {
    const yaml = (name: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: ${name}}\nspec: {engine: custom, command: [sleep, "1"]}\n`;
    await at.declare("slots/all.yaml", `${yaml("other")}---\n${yaml("twin")}`);
    const { hash } = await at.got("/api/slots/twin/manifest");
    const body = { text: `${yaml("twin")}# only this one\n`, hash };
    const { is, message } = await at.refused("PUT", "/api/slots/twin/manifest", body);
    assert.match(`${is}: ${message}`, /^422 .*nothing else/);
  });

  it("says why it may not be written", async () => {
    await at.declare(".berth-read-only", "");
    const { hash, read_only: why } = await at.got(path);
    assert.match(String(why), /berth-read-only/);
    assert.match((await at.refused("PUT", path, { text: `${text}#\n`, hash })).is, /^409 /);
  });
});

const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join("\n");

/** As long as a body may be. Each kept its parser busy for seconds or minutes. */
const files: Readonly<Record<string, string>> = {
  "slots/anchors.yaml": "&a ".repeat(40_000),
  "slots/aliases.yaml": lines(6000, (index) => `k${index}: &a${index} x`),
  "slots/dashes.yaml": "- ".repeat(60_000),
  "slots/list.yaml": `a: [${"1,".repeat(60_000)}]`,
  "slots/documents.yaml": "---\na: 1\n".repeat(10_000),
  "slots/deep.yaml": "[".repeat(120_000),
  "slots/map.toml": lines(8000, (index) => `key${index} = 1`),
  "slots/named.yaml": `---\nkind: Slot\nmetadata: {name: a}\nspec: {model: {default: m}}\n`.repeat(900),
  "slots/tables.toml": lines(8000, (index) => `[a.b${index}]`),
};

describe("bodies that take their parser long", () => {
  let at: Site;
  before(async () => {
    at = await site();
  });
  after(() => at[Symbol.asyncDispose]());
  const validate = async (file: string, text: string) =>
    await at.got("/api/config/validate", "POST", { files: { [file]: text } });

  it("are answered", { timeout: 600_000 }, async () => {
    for (const [file, text] of Object.entries(files)) assert.equal((await validate(file, text))["valid"], false, file);
  });

  it("are written in a single edit: a provider with a thousand labels", async () => {
    const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`label-${index}`, "x"]));
    const spec = { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] };
    assert.equal((await at.send("PUT", "/api/upstreams/acme", spec)).status, 201);
    assert.equal((await at.send("PUT", "/api/upstreams/acme", { ...spec, labels })).status, 202);
  });

  it("report at most a hundred unknown keys of one map", async () => {
    const { diagnostics } = await validate(
      "slots/a.yaml",
      lines(2000, (index) => `key${index}: x`),
    );
    assert.equal(rowsOf({ data: diagnostics }).length, 100);
  });
});
