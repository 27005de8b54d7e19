import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ObjectCache } from "../../src/kubernetes/object-cache.ts";
import { readObject, type KubeObject } from "../../src/kubernetes/object.ts";

function object(uid: string, resourceVersion: string): KubeObject {
  const read = readObject({ metadata: { name: "a", uid, resourceVersion } });
  assert.ok(read !== undefined);
  return read;
}

describe("the objects of a list", () => {
  it("come back with a later version: a label was taken off and put back", () => {
    const cache = new ObjectCache();
    cache.put(object("u", "1"));
    assert.equal(cache.delete("a", "u", "2"), true);
    assert.equal(cache.put(object("u", "3")), true);
    assert.equal(cache.get("a")?.meta.resourceVersion, "3");
    assert.equal(cache.delete("a", "u", "2"), false, "the deletion, told once more");
    assert.equal(cache.delete("a", "u", "4"), true);
  });

  it("do not come back with a version from before their deletion", () => {
    const cache = new ObjectCache();
    cache.put(object("u", "1"));
    cache.delete("a", "u", "3");
    assert.deepEqual([cache.put(object("u", "2")), cache.put(object("u", "3"))], [false, false]);
    assert.equal(cache.get("a"), undefined);
  });

  it("do not take the place of a later object of their name", () => {
    const cache = new ObjectCache();
    cache.put(object("u", "1"));
    cache.put(object("v", "5"));
    assert.equal(cache.put(object("u", "4")), false);
    assert.equal(cache.get("a")?.meta.uid, "v");
  });
});
