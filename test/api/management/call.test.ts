import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { requestOf, UnsendableName } from "../../../src/api/management/call.ts";

describe("a call of the management API", () => {
  it("has the method and path of its route", () => {
    assert.deepEqual(requestOf("GET /api/slots"), { method: "GET", path: "/api/slots" });
    const lend = requestOf("DELETE /api/groups/{name}/lend", { params: { name: "gpu" } });
    assert.deepEqual(lend, { method: "DELETE", path: "/api/groups/gpu/lend" });
  });

  it("has the given values of its query alone", () => {
    const call = { params: { ref: "a" }, query: { force: undefined, files: "1", timeout: 30 } };
    assert.equal(requestOf("DELETE /api/models/{ref}", call).path, "/api/models/a?files=1&timeout=30");
    assert.equal(
      requestOf("GET /api/models/hub", { query: { name: "a/b:c&d" } }).path,
      "/api/models/hub?name=a%2Fb%3Ac%26d",
    );
  });

  for (const name of ["a/b", "a?b", "a#b", "%2e%2e", "ü", " ", "a..", "..."])
    it(`carries the name "${name}" whole`, () => {
      const { path } = requestOf("GET /api/slots/{name}/plan", { params: { name } });
      const [, part = "", ...others] =
        /^\/api\/slots\/([^/]*)\/plan$/.exec(new URL(path, "http://berth").pathname) ?? [];
      assert.deepEqual([decodeURIComponent(part), others], [name, []]);
    });

  it("keeps the slashes of a ref", () => {
    const { path } = requestOf("POST /api/models/{ref}/assign", { params: { ref: "vendor/a:free" } });
    assert.equal(path, "/api/models/vendor/a%3Afree/assign");
  });

  for (const ref of ["../slots/primary", "a/./b", "a/.."])
    it(`stays on its route with the ref ${ref}`, () => {
      const { path } = requestOf("DELETE /api/models/{ref}", { params: { ref } });
      const [, part = ""] = /^\/api\/models\/([^/]*)$/.exec(new URL(path, "http://berth").pathname) ?? [];
      assert.equal(decodeURIComponent(part), ref);
    });

  for (const [route, params] of [
    ["GET /api/slots/{name}", { name: ".." }],
    ["GET /api/slots/{name}/plan", { name: "." }],
    ["DELETE /api/models/{ref}", { ref: ".." }],
  ] as const)
    it(`is refused where the name leaves ${route}: ${Object.values(params).join("")}`, () => {
      assert.throws(() => requestOf(route, { params }), UnsendableName);
    });
});
