import assert from "node:assert/strict";
import { test } from "node:test";
import { sharedSets } from "../../support/shared-sets.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("the end of a loan deletes no loan that another process has written since", async () => {
  await using directory = await tempDir();
  await using stack = new AsyncDisposableStack();
  const { groups: operator } = stack.use(await sharedSets(directory.path));
  const { groups: gateway } = stack.use(await sharedSets(directory.path));
  const loan = (day: string) => {
    const until = `2026-01-${day}T00:00:00.000Z`;
    return { schema: 1, group: "gpu", until, requestedAt: "2026-01-01T00:00:00.000Z" } as const;
  };
  await operator.lend(loan("02"));
  await gateway.lend(loan("03"));
  await operator.endLoan("gpu", loan("02").until);
  assert.equal(operator.loan("gpu")?.until, loan("03").until);
  await operator.endLoan("gpu", loan("03").until);
  assert.equal(operator.loan("gpu"), undefined);
  await operator.endLoan("gpu", loan("03").until);
  await gateway.lend(loan("04"));
  await gateway.endLoan("gpu");
  assert.equal(gateway.loan("gpu"), undefined);
});
