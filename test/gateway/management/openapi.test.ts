import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { apiRoutes } from "../../../src/api/management/routes.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { startGateway } from "../../support/gateway.ts";

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1 and has every route of the gateway", async () => {
    await using gateway = await startGateway();
    const response = await fetch(`${gateway.url}/api/openapi.json`);
    const document: unknown = await response.json();
    assert.ok(isRecord(document) && isRecord(document["paths"]));
    const verdict = await new Validator().validate({ ...document });
    assert.deepEqual(verdict.errors ?? [], []);
    assert.equal(verdict.valid, true);
    const documented = Object.entries(document["paths"]).flatMap(([path, methods]) =>
      Object.keys(methods ?? {}).map((method) => `${method.toUpperCase()} ${path}`),
    );
    // A route with a ref is one `*` to the router, whatever stands behind it.
    const spelt = (route: string): string => route.replaceAll(/\{ref\}.*$/g, "*").replaceAll(/\{(\w+)\}/g, ":$1");
    const served = gateway.running.routes
      .filter(({ method, path }) => method !== "HEAD" && !["/", "/livez", "/readyz", "/metrics"].includes(path))
      .map(({ method, path }) => `${method} ${path}`);
    assert.deepEqual([...new Set(documented.map(spelt))].toSorted(), [...new Set(served)].toSorted());
    assert.equal(documented.length >= Object.keys(apiRoutes).length + 12, true);
  });

  it("would be found invalid if it were", async () => {
    const broken = { openapi: "3.1.0", info: { title: "x" }, paths: {} };
    assert.equal((await new Validator().validate(broken)).valid, false);
  });

  it("names every operation once, with its scope, and says what goes in and out", async () => {
    await using gateway = await startGateway();
    const document: unknown = await (await fetch(`${gateway.url}/api/openapi.json`)).json();
    assert.ok(isRecord(document) && isRecord(document["paths"]));
    const ids: unknown[] = [];
    for (const [path, methods] of Object.entries(document["paths"])) {
      for (const [method, operation] of Object.entries(methods ?? {})) {
        const what = `${method} ${path}`;
        assert.ok(isRecord(operation) && isRecord(operation["responses"]), what);
        ids.push(operation["operationId"]);
        assert.match(String(operation["summary"]), /^[A-Z]/, what);
        assert.match(String(operation["x-berth-scope"]), /^(public|any|v1|read|admin)$/, what);
        const parameters = Array.isArray(operation["parameters"]) ? operation["parameters"] : [];
        const named = parameters.filter((each: unknown) => isRecord(each) && each["in"] === "path").length;
        assert.equal(named, [...path.matchAll(/\{/g)].length, what);
        assert.ok("4XX" in operation["responses"] && "5XX" in operation["responses"], what);
      }
    }
    assert.equal(new Set(ids).size, ids.length);
  });

  it("is a page too, that its own policy lets a browser show", async () => {
    await using gateway = await startGateway();
    const response = await fetch(`${gateway.url}/api/docs`);
    assert.equal(response.headers.get("content-type"), "text/html; charset=utf-8");
    const policy = response.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; style-src 'unsafe-inline'/);
    const page = await response.text();
    // What the policy would block: scripts, images, fonts, frames, forms, and anything from elsewhere.
    assert.doesNotMatch(page, /<(script|img|iframe|form|link|object|base)\b|\bon\w+=|url\(|@import|src=|https?:\/\//i);
    for (const { path } of Object.values(apiRoutes)) assert.ok(page.includes(`<code>${path}</code>`), path);
    assert.ok(page.includes("<code>/v1/chat/completions</code>"));
  });
});
