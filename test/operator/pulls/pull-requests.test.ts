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

it("a pull over an open API is another one than that of a slot, which may use addresses of this machine", async () => {
  await using at = await pullSite();
  const files = [{ source: "http://127.0.0.1:9000/a.gguf" }];
  await at.pulls.join({ ref: "a", files, isOpen: false }, { requester: "p", attempt: "1" });
  await at.put("open", "run", { files, isOpen: true });
  await until("both are fetched", () => at.running.size === 2);
  assert.deepEqual([...at.running.keys()].map(({ isOpen }) => isOpen).toSorted(), [false, true]);
});
