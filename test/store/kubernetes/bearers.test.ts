import assert from "node:assert/strict";
import { it } from "node:test";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";
import { openOperator, openView, withSlot } from "./parts.ts";

const secret = "/api/v1/namespaces/berth/secrets/berth-bearers";
const onError = (error: unknown): void => assert.fail(String(error));

function withBearer(revision: number): PublishedSlot {
  const bearer = `bearer-${revision}-${"x".repeat(32)}`;
  return { ...published("a", revision), bearers: { main: bearer }, bearerList: [{ role: "main", ordinal: 0, bearer }] };
}

it("a gateway sees that an engine with a bearer has ended", async () => {
  using api = withSlot();
  await using operator = await openOperator(api, onError);
  await using reader = await openView(api, onError);
  await operator.publisher.writeSlot(withBearer(1));
  await until("its engine is seen", () => reader.view.slot("a")?.bearers?.main !== undefined);
  await operator.publisher.writeSlot(published("a", 2));
  await until("its end is seen", () => reader.view.slot("a")?.revision === 2);
  assert.equal(reader.view.slot("a")?.bearers, undefined);
});

it("the next operator reads a slot whose bearers are of another version, without them", async () => {
  using api = withSlot();
  {
    await using earlier = await openOperator(api, onError);
    await earlier.publisher.writeSlot(withBearer(7));
  }
  api.put(secret, undefined);
  await using next = await openOperator(api, onError);
  const [slot] = await next.publisher.readSlots();
  assert.deepEqual([slot?.name, slot?.revision, slot?.bearers], ["a", 7, undefined]);
});

it("a Secret of bearers that somebody deletes is missed, and written again at once", async () => {
  using api = withSlot();
  await using operator = await openOperator(api, onError);
  const { publisher } = operator;
  await publisher.writeSlot(withBearer(1));
  assert.deepEqual(publisher.missingSlots(["a"]), []);
  api.put(secret, undefined);
  await until("it is missed", () => publisher.missingSlots(["a"]).length === 1);
  await publisher.writeSlot(withBearer(1));
  assert.notEqual(api.get(secret), undefined);
  assert.deepEqual(publisher.missingSlots(["a"]), []);
});
