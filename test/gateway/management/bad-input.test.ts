import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiRoutes } from "../../../src/api/management/routes.ts";
import type { RouteShape } from "../../../src/api/management/shape.ts";
import { modelRecord } from "../../support/gateway.ts";
import { refusalOf, rowsOf, site, type Site } from "./fixture.ts";

const shapes = Object.values<RouteShape>(apiRoutes);
const url = ({ path }: RouteShape): string =>
  path.replace("{name}", "primary").replace("{ref}", "other").replace("{id}", "x");

/** The bodies of POST requests, by the last part of their path. */
const bodies: Readonly<Record<string, string>> = {
  "/swap": '{"model":"other"}',
  "/assign": '{"slot":"nobody"}',
  "/lend": '{"seconds":60}',
  "/benchmark":
    '{"max_tokens":1,"levels":[{"clients":1,"requests":1,"first_token_ms":1,"slowest_first_token_ms":1,' +
    '"tokens_per_second_each":1,"tokens_per_second":1}]}',
};
const json = { "content-type": "application/json" };

describe("bad input", () => {
  let at: Site;
  before(async () => {
    at = await site({ slots: { primary: { port: 1 } }, registry: { models: [modelRecord("other")] } });
  });
  after(() => at[Symbol.asyncDispose]());

  type Told = readonly [is: string, path: unknown];
  const send = async (
    method: string,
    path: string,
    body?: string | Buffer,
    headers: Record<string, string> = json,
  ): Promise<Told> => {
    const { is, details } = await refusalOf(
      await fetch(new URL(path, at.url), { method, ...(body !== undefined && { body, headers }) }),
    );
    return [is, details?.["path"]];
  };
  const invalid = (...path: string[]): Told => ["400 dispatch.invalid_request", path];
  const faulty = (...path: string[]): Told => ["422 config.invalid", path];

  it("is refused in every body: not JSON, not an object, too large, of another type, or missing", async () => {
    const taking = shapes.filter(({ body }) => body !== undefined);
    assert.ok(taking.length >= 7);
    for (const shape of taking) {
      const { method, path } = shape;
      const what = `${method} ${path}`;
      const to = url(shape);
      assert.equal((await send(method, to, "{"))[0], "400 dispatch.invalid_request", what);
      for (const body of ["[]", '"x"', "null"])
        assert.deepEqual(await send(method, to, body), invalid(), `${what} ${body}`);
      const hasManifest = shape.manifest !== undefined || path.endsWith("/manifest") || path.endsWith("/validate");
      const largest = hasManifest ? 128 * 1024 : (shape.bodyLimitBytes ?? 1024 ** 2);
      const large = JSON.stringify({ x: "x".repeat(largest) });
      assert.equal((await send(method, to, large))[0], "413 dispatch.payload_too_large", what);
      const text = await send(method, to, "{}", { "content-type": "text/plain" });
      assert.equal(text[0], "415 dispatch.unsupported_media_type", what);
      if (path !== "/api/config/validate") assert.deepEqual(await send(method, to), invalid(), what);
      for (const key of ["__proto__", "constructor"])
        assert.match((await send(method, to, `{"${key}":{"prototype":{}}}`))[0], /^4(00|22) /, `${what} ${key}`);
    }
  });

  it("is named by its path: wrong type, missing and unknown field", async () => {
    const [swap, assign, tokens] = ["/api/slots/primary/swap", "/api/models/other/assign", "/api/auth/tokens"];
    const [validate, acme, primary] = ["/api/config/validate", "/api/upstreams/acme", "/api/slots/primary"];
    const spec = { model: { default: "m" } };
    for (const [method, path, body, told] of [
      ["POST", swap, { model: 5 }, invalid("model")],
      ["POST", swap, { model: "no ref!" }, invalid("model")],
      ["POST", swap, { model: "other", write: "yes" }, invalid("write")],
      ["POST", swap, { model: "other", more: 1 }, invalid("more")],
      ["POST", assign, {}, invalid("slot")],
      ["POST", assign, { slot: "Not A Slot" }, invalid("slot")],
      ["POST", assign, { slot: "primary", more: 1 }, invalid("more")],
      ["POST", tokens, {}, invalid("label")],
      ["POST", tokens, { label: "ci" }, invalid("scope")],
      ["POST", tokens, { label: "ci", scope: "root" }, invalid("scope")],
      ["POST", tokens, { label: 7, scope: "all" }, invalid("label")],
      ["POST", tokens, { label: "", scope: "all" }, invalid("label")],
      ["POST", tokens, { label: "two\nlines", scope: "all" }, invalid("label")],
      ["POST", tokens, { label: "x", scope: "admin", more: 1 }, invalid("more")],
      ["POST", validate, { files: { "slots/a.toml": 5 } }, invalid("files", "slots/a.toml")],
      ["POST", validate, {}, invalid("files")],
      ["POST", validate, { files: {}, more: 1 }, invalid("more")],
      ["PUT", acme, { baseUrl: 5 }, faulty("baseUrl")],
      ["PUT", acme, { models: [{ ref: "a" }] }, faulty("baseUrl")],
      ["PUT", acme, { baseUrl: "https://x.example", more: 1 }, faulty("more")],
      ["PUT", acme, { baseUrl: "https://x.example" }, faulty("models")],
      ["PUT", "/api/upstreams/Not%20A%20Name", { baseUrl: "https://x.example" }, invalid("name")],
      ["PUT", primary, { load: 5 }, faulty("load")],
      ["PUT", primary, {}, faulty("model", "default")],
      ["PUT", primary, { model: { default: "m", parallel: "2" } }, faulty("model", "parallel")],
      ["PUT", primary, { ...spec, labels: { a: 1 } }, faulty("labels")],
      ["PUT", primary, { name: "other", ...spec }, faulty("name")],
      ["PUT", primary, { kind: "Model", metadata: {}, spec }, faulty("kind")],
      ["PUT", primary, { apiVersion: "v2", metadata: {}, spec }, faulty("apiVersion")],
      [
        "PUT",
        primary,
        { kind: "Slot", metadata: {}, spec: { ...spec, idleSeconds: -1 } },
        faulty("spec", "idleSeconds"),
      ],
      ["PUT", primary, { kind: "Slot", metadata: {}, spec, more: 1 }, faulty("more")],
      ["PUT", primary, { kind: "Slot", metadata: { annotations: {} }, spec }, faulty("metadata", "annotations")],
      ["PUT", primary, { kind: "Slot", metadata: [], spec }, faulty("metadata")],
      ["PUT", primary, { metadata: { name: "other" }, spec }, faulty("metadata", "name")],
      ["PUT", primary, { kind: "Slot", metadata: {}, spec: 5 }, faulty("spec")],
      ["PUT", "/api/groups/gpu", { budget: { slots: "2" } }, faulty("budget", "slots")],
      ["POST", "/api/slots", spec, invalid("name")],
      ["POST", "/api/slots", { name: 5, ...spec }, faulty("name")],
      ...["UP", "a/b", "..", "-a", "x".repeat(33), "__proto__", "../../etc"].map(
        (name) => ["POST", "/api/slots", { name, ...spec }, invalid("name")] as const,
      ),
    ] as const) {
      const text = JSON.stringify(body);
      assert.deepEqual(await send(method, path, text), told, `${method} ${path} ${text}`);
    }
  });

  it("is reported with the nearest known field", async () => {
    const context = { model: { default: "a", context_size: 5 } };
    for (const [method, path, body, message] of [
      ["PUT", "/api/slots/primary", { modle: {} }, "modle: unknown key; did you mean model?"],
      ["PUT", "/api/slots/primary", context, "model.context_size: unknown key; did you mean contextSize?"],
      ["POST", "/api/slots/primary/swap", { modell: "a" }, "modell: unknown key; did you mean model?"],
      ["POST", "/api/slots/primary/load?timeot=5", undefined, "timeot: unknown key; did you mean timeout?"],
      ["POST", "/api/models/other/assign", {}, "slot: is required"],
    ] as const)
      assert.equal((await at.refused(method, path, body)).message, message, `${method} ${path}`);
  });

  it("is not repeated in the answer", async () => {
    const canary = "canary".repeat(20);
    for (const body of [{ label: canary, scope: "all" }, { label: "ci", scope: canary }, canary])
      assert.doesNotMatch(JSON.stringify(await at.refused("POST", "/api/auth/tokens", body)), /canary/);
  });

  it("is refused where a route takes no body, instead of being ignored", async () => {
    const silent = shapes.filter(
      ({ method, body, path }) => method !== "GET" && body === undefined && !path.startsWith("/v1"),
    );
    assert.ok(silent.length >= 8);
    for (const shape of silent) {
      assert.deepEqual(await send(shape.method, url(shape), '{"force":true}'), invalid("force"), shape.path);
      assert.deepEqual(await send(shape.method, url(shape), "[1]"), invalid(), shape.path);
    }
    assert.equal((await at.send("POST", "/api/install/complete", {})).status, 200, "some clients send {} for nothing");
  });

  it("is refused before it is parsed: not UTF-8, deep nesting, half a surrogate pair, or too many values", async () => {
    const latin = Buffer.from('{"name":"\xff"}', "latin1");
    const refused = await refusalOf(await fetch(`${at.url}/api/slots`, { method: "POST", body: latin, headers: json }));
    assert.deepEqual([refused.is, refused.message], ["400 dispatch.invalid_request", "the body is not UTF-8"]);
    const nested = (depth: number): string => `{"x":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    for (const shape of shapes.filter(({ body, path }) => body !== undefined && path.startsWith("/api"))) {
      for (const body of [nested(64), nested(50_000), `{"x":"\\ud800"}`, `{"\\udfff":1}`])
        assert.deepEqual(await send(shape.method, url(shape), body), invalid(), `${shape.path} ${body.slice(0, 20)}`);
    }
    const brackets = "[{".repeat(100);
    const inText = await send("POST", "/api/slots/primary/swap", `{"${brackets}":1}`);
    assert.deepEqual(inText, invalid(brackets), "brackets in a text are no depth");
    const values = { files: { a: Array.from({ length: 10_001 }, () => 1) } };
    const many = await at.refused("POST", "/api/config/validate", values);
    assert.equal(many.is, "400 dispatch.invalid_request");
    assert.match(many.message, /holds more than 10000 values/);
  });

  it("is named in every query: wrong value, unknown name, the same name twice", async () => {
    const asking = shapes.filter(({ query }) => query !== undefined);
    assert.ok(asking.length >= 8);
    for (const shape of asking) {
      const what = `${shape.method} ${shape.path}`;
      for (const name of Object.keys(shape.query?.shape ?? {})) {
        const told = async (query: string): Promise<Told> => await send(shape.method, `${url(shape)}?${query}`);
        // Any text may be the name of a model.
        if (name !== "model" && name !== "name")
          assert.deepEqual(await told(`${name}=nonsense`), invalid(name), `${what} ${name}`);
        assert.deepEqual(await told(`${name}=1&${name}=1`), invalid(name), `${what} ${name} twice`);
      }
      // Clients of OpenAI's and llama-server's routes send what theirs knows.
      if (shape.path.startsWith("/v1/") || shape.path === "/props") continue;
      const needed = Object.hasOwn(shape.query?.shape ?? {}, "name") ? "name=x&" : "";
      assert.deepEqual(await send(shape.method, `${url(shape)}?${needed}nonsense=1`), invalid("nonsense"), what);
    }
    const paged = await fetch(new URL("/v1/models?limit=1000&after_id=x", at.url));
    assert.equal(paged.status, 200, "clients of other services page through their lists");
    for (const tail of ["0", "5001", "1.5", "-1", ""])
      assert.deepEqual(await send("GET", `/api/slots/primary/logs?tail=${tail}`), invalid("tail"), tail);
    for (const timeout of ["0", "3601", "x"])
      assert.deepEqual(await send("POST", `/api/slots/primary/load?timeout=${timeout}`), invalid("timeout"), timeout);
  });

  it("is refused with the methods that a path takes", async () => {
    const refused = async (method: string, path: string): Promise<string | undefined> => {
      const response = await fetch(new URL(path, at.url), { method });
      assert.equal((await refusalOf(response)).is, "405 system.method_not_allowed", `${method} ${path}`);
      return response.headers.get("allow")?.replace(/, HEAD\b/, "");
    };
    const known = new Map<string, Set<string>>();
    for (const { method, path } of shapes) known.set(path, (known.get(path) ?? new Set()).add(method));
    for (const [path, methods] of known) {
      // To the router, everything behind a ref may be one.
      if (path.includes("{ref}") || path.startsWith("/api/models/") || path.startsWith("/v1/")) continue;
      const allowed = [...methods].toSorted().join(", ");
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "QUERY"])
        if (!methods.has(method))
          assert.equal(await refused(method, path.replaceAll(/\{\w+\}/g, "x")), allowed, `${method} ${path}`);
    }
    for (const [method, path, allow] of [
      ["PUT", "/api/models/other", "DELETE, GET"],
      ["DELETE", "/api/models/catalog", "GET"],
      ["GET", "/api/models/vendor/other/assign", "POST"],
      ["GET", "/v1/chat/completions", "POST"],
      ["QUERY", "/v1/chat/completions", "POST"],
      ["QUERY", "/v1/models", "GET"],
    ] as const)
      assert.equal(await refused(method, path), allow, `${method} ${path}`);
  });

  it("includes an unknown name, which is 404", async () => {
    for (const shape of shapes.filter(({ path }) => path.includes("{"))) {
      if (shape.method === "PUT" || shape.path.startsWith("/api/pulls")) continue;
      const path = shape.path.replaceAll(/\{\w+\}/g, "nobody");
      const body = shape.method === "POST" ? bodies[shape.path.slice(shape.path.lastIndexOf("/"))] : undefined;
      const ofSlot = shape.path.includes("/slots/") || shape.path.endsWith("/assign");
      const expected = ofSlot ? /^404 slot\.not_found$/ : /^404 (model|system)\.not_found$/;
      assert.match((await send(shape.method, path, body))[0], expected, `${shape.method} ${path}`);
    }
  });

  it("changes nothing", async () => {
    assert.deepEqual(rowsOf(await at.got("/api/auth/tokens")), []);
    await assert.rejects(at.written("slots/primary.toml"), { code: "ENOENT" });
  });
});
