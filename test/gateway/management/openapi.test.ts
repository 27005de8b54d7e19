import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
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
