import assert from "node:assert/strict";
import { it } from "node:test";
import { until } from "../../support/until.ts";
import { pullSite } from "./site.ts";

it("a check that is cancelled reads no further, and ends as cancelled", async () => {
  await using at = await pullSite();
  await at.put("check", "verify");
  const check = await until("the files are being read", () => at.checks.get("a"));
  await at.put("check", "cancel");
  await at.status("the check is cancelled", ({ id, state }) => id === "check" && state === "cancelled");
  assert.equal(at.checks.size, 0, "nothing reads");
  check.end();
  await until("its request is gone", () => at.requests.request("check") === undefined);
  assert.deepEqual(
    at.requests.published().map(({ id, state }) => [id, state]),
    [["check", "cancelled"]],
  );
});
