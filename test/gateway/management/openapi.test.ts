import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { docsPage } from "../../../src/gateway/management/docs-page.ts";
import { apiRoutes } from "../../../src/api/management/routes.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import type { Json } from "./fixture.ts";

describe("the OpenAPI document", () => {
  let gateway: TestGateway;
  let document: Json;
  before(async () => {
    gateway = await startGateway();
    document = JSON.parse(await (await fetch(`${gateway.url}/api/openapi.json`)).text());
  });
  after(() => gateway[Symbol.asyncDispose]());

  /** Every operation with its method and path. */
  const operations = (): [method: string, path: string, operation: Json][] =>
    Object.entries(recordIn(document["paths"])).flatMap(([path, methods]) =>
      Object.entries(recordIn(methods)).map(([method, operation]) => [method.toUpperCase(), path, recordIn(operation)]),
    );

  it("is valid OpenAPI 3.1 and has every route of the gateway", async () => {
    assert.deepEqual(await new Validator().validate({ ...document }).then(({ errors = [] }) => errors), []);
    // A route with a ref is one `*` to the router, whatever stands behind it.
    const documented = operations().map(([method, path]) =>
      `${method} ${path}`.replaceAll(/\{ref\}.*$/g, "*").replaceAll(/\{(\w+)\}/g, ":$1"),
    );
    const others = ["/", "/livez", "/readyz", "/health", "/metrics"];
    const served = gateway.running.routes
      .filter(({ method, path }) => method !== "HEAD" && !others.includes(path))
      .map(({ method, path }) => `${method} ${path}`);
    assert.deepEqual([...new Set(documented)].toSorted(), [...new Set(served)].toSorted());
  });

  it("names every operation once, with its scope, and says what goes in and out", () => {
    const ids = new Set<unknown>();
    for (const [method, path, operation] of operations()) {
      const what = `${method} ${path}`;
      ids.add(operation["operationId"]);
      assert.match(String(operation["summary"]), /^[A-Z]/, what);
      assert.match(String(operation["x-berth-scope"]), /^(public|any|v1|read|admin)$/, what);
      const parameters = Array.isArray(operation["parameters"]) ? operation["parameters"] : [];
      const named = parameters.filter((each: unknown) => isRecord(each) && each["in"] === "path").length;
      assert.equal(named, [...path.matchAll(/\{/g)].length, what);
      const responses = recordIn(operation["responses"]);
      assert.ok("4XX" in responses && "5XX" in responses, what);
    }
    assert.equal(ids.size, operations().length);
  });

  it("names the types of manifests and resources, and has every schema to which it refers", () => {
    const { schemas } = recordIn(document["components"]);
    const references = JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]*)"/g);
    const referred = [...references].map(([, name = ""]) => name);
    assert.deepEqual([...new Set(referred)].filter((name) => !isRecord(recordIn(schemas)[name])).toSorted(), []);
    assert.doesNotMatch(JSON.stringify(document), /\$defs/);
    for (const [path, method, kind, required] of [
      ["/api/slots", "post", "Slot", ["name"]],
      ["/api/slots/{name}", "put", "Slot", []],
      ["/api/upstreams/{name}", "put", "Upstream", ["baseUrl"]],
      ["/api/groups/{name}", "put", "SlotGroup", []],
    ] as const) {
      const body = at(document, "paths", path, method, "requestBody", "content", "application/json", "schema", "anyOf");
      assert.ok(Array.isArray(body), path);
      const [flat, manifest]: unknown[] = body;
      const any = { $ref: `#/components/schemas/${kind}Manifest` };
      // No path names what is new: its manifest must.
      const named = { required: ["metadata"], properties: { metadata: { type: "object", required: ["name"] } } };
      assert.deepEqual(manifest, method === "post" ? { allOf: [any, named] } : any);
      const spec = recordIn(at(schemas, `${kind}Spec`, "properties"));
      assert.deepEqual(Object.keys(recordIn(at(flat, "properties"))), ["name", "labels", ...Object.keys(spec)]);
      assert.deepEqual([at(flat, "required"), at(flat, "additionalProperties")], [required, false]);
    }
  });

  it("is also a page, which its own policy lets a browser show", async () => {
    const response = await fetch(`${gateway.url}/api/docs`);
    assert.equal(response.headers.get("content-type"), "text/html; charset=utf-8");
    const policy = response.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; style-src 'unsafe-inline'/);
    const page = await response.text();
    // What the policy would block: scripts, images, fonts, frames, forms, and anything from elsewhere.
    assert.doesNotMatch(
      page,
      /<(script|img|iframe|form|link|object|base)\b|\bon\w+=|url\(|@import|src=|href="(?!openapi\.json"|#)/i,
    );
    for (const { method, path } of Object.values(apiRoutes))
      assert.ok(page.includes(`<code>${method} ${path}</code>`), path);
    assert.ok(page.includes("<code>POST /v1/chat/completions</code>"));
  });

  it("shows every field of queries, bodies and answers on that page, whole", () => {
    const json = (schema: object) => ({ content: { "application/json": { schema } } });
    const properties = {
      label: { type: "string", description: "Whose & for what" },
      parts: { type: "array", items: { type: "object", properties: { role: { const: "main" } } } },
      more: { type: "object", additionalProperties: { $ref: "#/components/schemas/Json" } },
      none: { anyOf: [{ type: "number" }, { type: "null" }] },
      both: { type: ["string", "null"] },
      free: {},
    };
    const wait = { type: "string", enum: ["ready", "settled"], description: "Answer later" };
    const route = {
      summary: "Makes <one>",
      "x-berth-scope": "admin",
      parameters: [
        { name: "id", in: "path", required: true, schema: { type: "string" } },
        { name: "wait", in: "query", schema: wait },
        { name: "timeout", in: "query", schema: { type: "integer", default: 180 } },
      ],
      requestBody: json({ type: "object", required: ["label"], properties }),
      responses: {
        "201": { content: { "text/plain": { schema: { type: "string" } } } },
        "204": { description: "Done" },
        "4XX": { $ref: "#/components/responses/Error" },
      },
    };
    const page = docsPage({
      openapi: "3.1.0",
      paths: { "/api/x/{id}": { post: route } },
      components: { schemas: { Json: { type: "object" } } },
    });
    assert.equal(
      page.slice(page.indexOf("<details>")),
      `<details><summary><code>POST /api/x/{id}</code> Makes &lt;one&gt; <i>admin</i></summary>
<h4>Parameters</h4><ul><li><code>id (path)</code>* string</li><li><code>wait (query)</code> &quot;ready&quot; | &quot;settled&quot;: Answer later</li><li><code>timeout (query)</code> integer, else <code>180</code></li></ul>
<h4>Body: application/json</h4><ul><li><code>label</code>* string: Whose &amp; for what</li><li><code>parts</code> list of map<ul><li><code>role</code> &quot;main&quot;</li></ul></li><li><code>more</code> map of <a href="#schema-Json">Json</a></li><li><code>none</code> number | null</li><li><code>both</code> string | null</li><li><code>free</code> anything</li></ul>
<h4>Answer 201: text/plain</h4><code>string</code>
<h4>Answer 204</h4>without a body
</details>
<h2>Schemas</h2>
<h3 id="schema-Json">Json</h3>
<code>map</code>
</body></html>
`,
    );
  });
});

function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value;
  for (const key of path) found = recordIn(found)[key];
  return found;
}

function recordIn(value: unknown): Json {
  assert.ok(isRecord(value));
  return value;
}
