import assert from "node:assert/strict";
import { it } from "node:test";
import { Subscribers } from "../../src/lib/subscribers.ts";

it("subscribers get every notification until they are disposed of, each on its own", () => {
  const heard: string[] = [];
  const subscribers = new Subscribers<[slot: string]>();
  const first = subscribers.add((slot) => void heard.push(`first ${slot}`));
  subscribers.add((slot) => void heard.push(`second ${slot}`));
  subscribers.notify("a");
  first[Symbol.dispose]();
  subscribers.notify("b");
  subscribers.clear();
  subscribers.notify("c");
  assert.deepEqual(heard, ["first a", "second a", "second b"]);
});
