import assert from "node:assert/strict";
import { it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { readObject } from "../../../src/kubernetes/object.ts";
import { openEvents } from "../../../src/store/kubernetes/events.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";

const path = "/api/v1/namespaces/berth/events";
const metadata = { name: "a", uid: "u", resourceVersion: "1" };

function endedAt(second: number): PublishedSlot {
  const slot = published("a");
  const at = new Date(Date.now() + second * 1000).toISOString();
  const transitions = [{ at, from: "ready", to: "error", reason: "Exited", message: "it ended" } as const];
  return { ...slot, status: { ...slot.status, transitions } };
}

it("the count of an Event goes on with the next operator", async () => {
  using api = new ApiDouble();
  api.before = (method, at) => {
    if (method === "POST" && at === path && counts().length > 0)
      throw new ApiError(409, "AlreadyExists", "it is there");
  };
  const names = new Set<string>();
  const counts = (): readonly unknown[] => [...names].map((name) => api.get(`${path}/${name}`)?.["count"]);
  const request = api.request.bind(api);
  api.request = async (method, at, call) => {
    const answer = await request(method, at, call);
    const name = readObject(answer)?.meta.name;
    if (method === "POST" && name !== undefined) names.add(name);
    return answer;
  };
  const object = readObject({ apiVersion, kind: "Slot", metadata });
  assert.ok(object !== undefined);
  const errors: unknown[] = [];
  let second = 0;
  for (const times of [2, 3]) {
    // Each operator knows only its own Events.
    const events = openEvents(api, (error) => void errors.push(error));
    for (let time = 0; time < times; time += 1) events.recordEvent(object, endedAt((second += 1)));
    const seen = second;
    await until(`count ${seen}`, () => counts()[0] === seen);
  }
  assert.deepEqual([counts(), errors], [[5], []]);
  api.before = () => undefined;
  openEvents(api, (error) => void errors.push(error)).warn(object, "BadAnnotation", "no request");
  await until("a warning of its own", () => names.size === 2);
  assert.partialDeepStrictEqual(api.get(`${path}/${[...names][1]}`), { type: "Warning", reason: "BadAnnotation" });
});
