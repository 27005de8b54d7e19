import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { guardExecFields, guardKeySource } from "../../../src/gateway/management/exec-fields.ts";

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
