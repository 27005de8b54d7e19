import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiRoutes } from "../../../src/api/management/routes.ts";
import type { RouteShape } from "../../../src/api/management/shape.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";

const shapes = Object.values<RouteShape>(apiRoutes);
const url = ({ path }: RouteShape): string =>
  path.replace("{name}", "primary").replace("{ref}", "other").replace("{id}", "x");

/** The bodies of POST requests, by the last part of their path. */
const bodies: Readonly<Record<string, string>> = {
  "/swap": '{"model":"other"}',
  "/assign": '{"slot":"nobody"}',
  "/lend": '{"seconds":60}',
  "/benchmark": JSON.stringify({
    max_tokens: 1,
    levels: [
      {
        clients: 1,
        requests: 1,
        first_token_ms: 1,
        slowest_first_token_ms: 1,
        tokens_per_second_each: 1,
        tokens_per_second: 1,
      },
    ],
  }),
};

describe("bad input", () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startGateway({
      slots: { primary: { port: 1 } },
      registry: { models: [modelRecord("other")] },
    });
  });
  after(() => gateway[Symbol.asyncDispose]());

  const send = async (
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = { "content-type": "application/json" },
  ): Promise<readonly [status: number, code: string, path: unknown]> => {
    const response = await fetch(new URL(path, gateway.url), {
      method,
      ...(body === undefined ? {} : { body, headers }),
    });
    const { error } = await envelopeOf(response);
    return [response.status, error.code, error.details?.["path"]];
  };
  const invalid = (...path: string[]): readonly [number, string, unknown] => [400, "dispatch.invalid_request", path];

  it("is refused in every body: not JSON, not an object, too large, of another type, or missing", async () => {
    const taking = shapes.filter(({ body }) => body !== undefined);
    assert.ok(taking.length >= 7);
    for (const shape of taking) {
      const { method, path } = shape;
      const what = `${method} ${path}`;
      const to = url(shape);
      assert.deepEqual((await send(method, to, "{")).slice(0, 2), [400, "dispatch.invalid_request"], what);
      for (const body of ["[]", '"x"', "5", "null"])
        assert.deepEqual(await send(method, to, body), invalid(), `${what} ${body}`);
      const large = JSON.stringify({ x: "x".repeat((shape.bodyLimitBytes ?? 1024 ** 2) + 50_000) });
      assert.deepEqual((await send(method, to, large)).slice(0, 2), [413, "dispatch.payload_too_large"], what);
      const text = await send(method, to, "{}", { "content-type": "text/plain" });
      assert.deepEqual(text.slice(0, 2), [415, "dispatch.unsupported_media_type"], what);
      if (path !== "/api/config/validate") assert.deepEqual(await send(method, to), invalid(), what);
      for (const key of ["__proto__", "constructor"]) {
        const polluted = await send(method, to, `{"${key}":{"prototype":{}}}`);
        assert.match(String(polluted[0]), /^(400|422)$/, `${what} ${key}`);
      }
    }
  });

  it("is named by its path: wrong type, missing and unknown field", async () => {
    for (const [method, path, body, expected] of [
      ["POST", "/api/slots/primary/swap", { model: 5 }, invalid("model")],
      ["POST", "/api/slots/primary/swap", { model: "no ref!" }, invalid("model")],
      ["POST", "/api/slots/primary/swap", { model: "other", write: "yes" }, invalid("write")],
      ["POST", "/api/slots/primary/swap", { model: "other", more: 1 }, invalid("more")],
      ["POST", "/api/models/other/assign", {}, invalid("slot")],
      ["POST", "/api/models/other/assign", { slot: "Not A Slot" }, invalid("slot")],
      ["POST", "/api/models/other/assign", { slot: "primary", more: 1 }, invalid("more")],
      ["POST", "/api/auth/tokens", {}, invalid("label")],
      ["POST", "/api/auth/tokens", { label: 5, scope: "admin" }, invalid("label")],
      ["POST", "/api/auth/tokens", { label: "x", scope: "root" }, invalid("scope")],
      ["POST", "/api/auth/tokens", { label: "x", scope: "admin", more: 1 }, invalid("more")],
      ["POST", "/api/config/validate", { files: { "slots/a.toml": 5 } }, invalid("files", "slots/a.toml")],
      ["POST", "/api/config/validate", {}, invalid("files")],
      ["POST", "/api/config/validate", { files: {}, more: 1 }, invalid("more")],
      ["PUT", "/api/upstreams/acme", { baseUrl: 5 }, [422, "config.invalid", ["baseUrl"]]],
      ["PUT", "/api/upstreams/acme", { models: [{ ref: "a" }] }, [422, "config.invalid", ["baseUrl"]]],
      ["PUT", "/api/upstreams/acme", { baseUrl: "https://x.example", more: 1 }, [422, "config.invalid", ["more"]]],
      ["PUT", "/api/upstreams/acme", { baseUrl: "https://x.example" }, [422, "config.invalid", ["models"]]],
      ["PUT", "/api/upstreams/Not%20A%20Name", { baseUrl: "https://x.example" }, invalid("name")],
      ["PUT", "/api/slots/primary", { load: 5 }, [422, "config.invalid", ["load"]]],
      ["PUT", "/api/slots/primary", {}, [422, "config.invalid", ["model", "default"]]],
    ] as const) {
      assert.deepEqual(
        await send(method, path, JSON.stringify(body)),
        expected,
        `${method} ${path} ${JSON.stringify(body)}`,
      );
    }
  });

  it("is reported with the nearest known field", async () => {
    for (const [method, path, body, message] of [
      ["PUT", "/api/slots/primary", { modle: {} }, "modle: unknown key; did you mean model?"],
      [
        "PUT",
        "/api/slots/primary",
        { model: { default: "a", context_size: 5 } },
        "model.context_size: unknown key; did you mean contextSize?",
      ],
      ["POST", "/api/slots/primary/swap", { modell: "a" }, "modell: unknown key; did you mean model?"],
      ["POST", "/api/slots/primary/load?timeot=5", undefined, "timeot: unknown key; did you mean timeout?"],
      ["POST", "/api/models/other/assign", {}, "slot: is required"],
    ] as const) {
      const response = await fetch(new URL(path, gateway.url), {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
      });
      assert.equal((await envelopeOf(response)).error.message, message, `${method} ${path}`);
    }
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
    const empty = await fetch(new URL("/api/install/complete", gateway.url), {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json" },
    });
    assert.equal(empty.status, 200, "some clients send {} for nothing");
  });

  it("is refused where it is not UTF-8", async () => {
    const response = await fetch(new URL("/api/slots", gateway.url), {
      method: "POST",
      body: Buffer.from('{"name":"\xff"}', "latin1"),
      headers: { "content-type": "application/json" },
    });
    const { error } = await envelopeOf(response);
    assert.deepEqual(
      [response.status, error.code, error.message],
      [400, "dispatch.invalid_request", "the body is not UTF-8"],
    );
  });

  it("is refused before it is parsed: deep nesting, or half a surrogate pair", async () => {
    const nested = (depth: number): string => `{"x":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    for (const shape of shapes.filter(({ body, path }) => body !== undefined && path.startsWith("/api"))) {
      for (const body of [nested(64), nested(200_000), `{"x":"\\ud800"}`, `{"\\udfff":1}`])
        assert.deepEqual(await send(shape.method, url(shape), body), invalid(), `${shape.path} ${body.slice(0, 20)}`);
    }
    const bracketed = `{"${"[{".repeat(100)}":1}`;
    assert.deepEqual(
      await send("POST", "/api/slots/primary/swap", bracketed),
      invalid("[{".repeat(100)),
      "brackets in a text are no depth",
    );
  });

  it("is named in every query: wrong value, unknown name, the same name twice", async () => {
    const asking = shapes.filter(({ query }) => query !== undefined);
    assert.ok(asking.length >= 8);
    for (const shape of asking) {
      const names = Object.keys(shape.query?.shape ?? {});
      const what = `${shape.method} ${shape.path}`;
      for (const name of names) {
        // Any text may be the name of a model.
        if (name !== "model") {
          const wrong = await send(shape.method, `${url(shape)}?${name}=nonsense`);
          assert.deepEqual(wrong, invalid(name), `${what} ${name}`);
        }
        const twice = await send(shape.method, `${url(shape)}?${name}=1&${name}=1`);
        assert.deepEqual(twice, invalid(name), `${what} ${name} twice`);
      }
      // Clients of OpenAI's and llama-server's routes send what theirs knows.
      if (shape.path.startsWith("/v1/") || shape.path === "/props") continue;
      assert.deepEqual(await send(shape.method, `${url(shape)}?nonsense=1`), invalid("nonsense"), what);
    }
    const paged = await fetch(new URL("/v1/models?limit=1000&after_id=x", gateway.url));
    assert.equal(paged.status, 200, "clients of other services page through their lists");
    for (const tail of ["0", "5001", "1.5", "-1", ""])
      assert.deepEqual(await send("GET", `/api/slots/primary/logs?tail=${tail}`), invalid("tail"), tail);
    for (const timeout of ["0", "3601", "x"])
      assert.deepEqual(await send("POST", `/api/slots/primary/load?timeout=${timeout}`), invalid("timeout"), timeout);
  });

  it("is refused with the methods that a path takes", async () => {
    const known = new Map<string, Set<string>>();
    for (const { method, path } of shapes) known.set(path, (known.get(path) ?? new Set()).add(method));
    for (const [path, methods] of known) {
      // To the router, everything behind a ref may be one.
      if (path.includes("{ref}") || path.startsWith("/api/models/") || path.startsWith("/v1/")) continue;
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "QUERY"]) {
        if (methods.has(method)) continue;
        const to = path.replaceAll(/\{\w+\}/g, "x");
        const response = await fetch(new URL(to, gateway.url), { method });
        assert.equal((await envelopeOf(response)).error.code, "system.method_not_allowed", `${method} ${path}`);
        assert.equal(response.status, 405);
        const allow = response.headers
          .get("allow")
          ?.split(", ")
          .filter((each) => each !== "HEAD");
        assert.deepEqual(allow, [...methods].toSorted(), `${method} ${path}`);
      }
    }
    for (const [method, path, allow] of [
      ["POST", "/api/models/other", "DELETE, GET, HEAD"],
      ["PUT", "/api/models/other", "DELETE, GET, HEAD"],
      ["PUT", "/api/models/catalog", "GET, HEAD"],
      ["DELETE", "/api/models/catalog", "GET, HEAD"],
      ["PUT", "/api/models/vendor/other/assign", "POST"],
      ["DELETE", "/api/models/vendor/other/assign", "POST"],
      ["GET", "/api/models/vendor/other/assign", "POST"],
      ["GET", "/v1/chat/completions", "POST"],
      ["QUERY", "/v1/chat/completions", "POST"],
      ["QUERY", "/v1/models", "GET, HEAD"],
    ] as const) {
      const response = await fetch(new URL(path, gateway.url), { method });
      assert.equal(response.status, 405, `${method} ${path}`);
      assert.equal(response.headers.get("allow"), allow, `${method} ${path}`);
    }
  });

  it("includes an unknown name, which is 404", async () => {
    const named = shapes.filter(({ path }) => path.includes("{"));
    for (const shape of named) {
      if (shape.method === "PUT" || shape.path.startsWith("/api/pulls")) continue;
      const path = shape.path.replaceAll(/\{\w+\}/g, "nobody");
      const body = shape.method === "POST" ? bodies[shape.path.slice(shape.path.lastIndexOf("/"))] : undefined;
      const [status, code] = await send(shape.method, path, body);
      const expected =
        shape.path.includes("/slots/") || shape.path.endsWith("/assign")
          ? "slot.not_found"
          : /^(model|system)\.not_found$/;
      assert.equal(status, 404, `${shape.method} ${path}`);
      assert.match(code, new RegExp(expected), `${shape.method} ${path}`);
    }
  });

  it("changes nothing", async () => {
    const listed: unknown = await (await fetch(`${gateway.url}/api/auth/tokens`)).json();
    assert.deepEqual(isRecord(listed) ? listed["data"] : undefined, []);
    const shown: unknown = await (await fetch(`${gateway.url}/api/config`)).json();
    assert.ok(isRecord(shown));
  });
});
