import assert from "node:assert/strict";
import { it } from "node:test";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";
import { openOperator, withSlot } from "./parts.ts";

const secret = "/api/v1/namespaces/berth/secrets/berth-bearers";
const onError = (error: unknown): void => assert.fail(String(error));

function withBearer(revision: number): PublishedSlot {
  const bearer = `bearer-${revision}-${"x".repeat(32)}`;
  return { ...published("a", revision), bearers: { main: bearer }, bearerList: [{ role: "main", ordinal: 0, bearer }] };
}

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
